"""At two in the morning: encoders and networks fail, and an operator's pages say which, why, and what to do.

All publishers are on air at once, on one server, while the tests run one after the other; what the pages showed, and
when, is kept by the pages themselves (`WATCH`). Times are counted from when a cause began.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser import chromium, log_in
from tests.e2e.programs import key_url
from tests.e2e.throttle import Uplink
from tests.media import make_clip
from tests.server_process import ServerProcess, program, running, wait_for
from tests.tools import require_tool

pytestmark = [
    pytest.mark.serve,
    pytest.mark.browser,
    pytest.mark.clients,
    pytest.mark.measures_time,
    pytest.mark.timeout(400),
]

WARM_UP_S = 10.0
SHOWN_S = 3.0
"""Beyond a check's hold, for an issue to be seen."""
TICK_S = 1.0
"""Streams are judged so often: a hold is whole ticks."""
MEAN_S = 5.0
"""Bitrates are means of so long."""

HEALTHY = ("cbr", "vbr", "ntsc", "sound")
HEALTHY_S = 180.0
STREAMS = (*HEALTHY, "slow", "gop", "mute", "silent", "killed")

KBPS = 800
SLOW = 0.25
"""Of what is sent, what the slow uplink lets through."""

LONG_GOP_S = 12
LONG_UNTIL_S = 36
"""Keyframes are so far apart in `gop` until then, 2 s afterwards."""
AUDIO_UNTIL_S, AUDIO_FROM_S = 16, 36
"""`mute` has no sound between."""

EXPECT_NO_VIDEO = """
from ingest.models import Stream
Stream.objects.filter(name="sound").update(expect_video=False)
"""

WATCH = """
    window.seen = [];
    const last = {};
    const text = (node) => node ? node.textContent.trim() : "";
    const look = () => {
        for (const node of document.querySelectorAll("[data-stream]")) {
            const path = node.dataset.stream;
            const isPage = node.id === "stream";
            const issues = [...(isPage ? document : node).querySelectorAll("li[data-check]")].map((issue) => ({
                check: issue.dataset.check,
                level: issue.dataset.level ?? "",
                text: text(issue),
                values: [...issue.querySelectorAll("dd")].map(text),
            }));
            const signature = JSON.stringify([
                node.dataset.health, node.dataset.state, issues.map(({ check, level }) => [check, level]),
            ]);
            if (signature === last[path]) continue;
            last[path] = signature;
            const { health, state } = node.dataset;
            window.seen.push({ at: Date.now() / 1000, path, health, state, issues });
        }
    };
    setInterval(look, 100);
"""
"""Keeps what a page shows of streams, whenever that changes: `seen`."""


@dataclass
class Night:
    server: ServerProcess
    keys: dict[str, dict[str, Any]]
    context: BrowserContext
    clip: Path
    """What `slow`, `silent` and `killed` send, again and again."""
    slow: Uplink
    stack: ExitStack
    faults: list[str] = field(default_factory=list)
    """Errors of the pages' scripts."""
    began: dict[str, float] = field(default_factory=dict)
    """When each stream's session began, and when its cause did: "slow", "slow cause"."""
    sessions: dict[str, str] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    """The streams' own; "" is the wall."""
    commands: dict[str, list[str]] = field(default_factory=dict)
    programs: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)

    def open(self, name: str) -> None:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.faults.append(f"{name}: {error}"))
        page.on("console", lambda said: self.faults.append(f"{name}: {said.text}") if said.type == "error" else None)
        page.goto(f"{self.server.http}/streams/live/{name}/" if name else f"{self.server.http}/")
        page.evaluate(WATCH)
        self.pages[name] = page

    def publish(self, name: str, *source: str, rtmp: str = "") -> None:
        """`source`: FFmpeg's options up to the muxer."""
        url = key_url(self.keys[f"live/{name}"], rtmp or self.server.rtmp, "query")
        self.commands[name] = [require_tool("ffmpeg"), "-nostdin", "-v", "error", "-re", *source, "-f", "flv", url]
        self._start(name)

    def _start(self, name: str) -> None:
        self.programs[name] = self.stack.enter_context(program(*self.commands[name]))

    def publish_clip(self, name: str, *, rtmp: str = "") -> None:
        self.publish(name, "-stream_loop", "-1", "-i", str(self.clip), "-c", "copy", rtmp=rtmp)

    def on_air(self, name: str) -> None:
        """Waits until it is, as encoders do: who is refused, as the database was busy, comes again."""

        def look() -> dict[str, Any] | None:
            snapshot = self.server.stream(f"live/{name}")
            if snapshot["state"] != "live" and self.programs[name].poll() is not None:
                self._start(name)
            return snapshot if snapshot["state"] == "live" else None

        snapshot = wait_for(look, timeout_s=60, what=f"{name} is on air")
        self.began[name] = datetime.fromisoformat(snapshot["since"]).timestamp()
        self.sessions[name] = snapshot["session_id"]

    def seen(self, page: str, name: str, after: float) -> list[dict[str, Any]]:
        """What the page has shown of a stream since then."""
        found: list[dict[str, Any]] = self.pages[page].evaluate("window.seen")
        return [each for each in found if each["path"] == f"live/{name}" and each["at"] >= after]

    def issue(self, page: str, name: str, check: str, level: str, *, after: float, within_s: float) -> dict[str, Any]:
        """The issue, as it was first shown. `level` is known on the stream's page, and on the wall by its card."""

        def look() -> dict[str, Any] | None:
            for each in self.seen(page, name, after):
                for issue in each["issues"]:
                    if issue["check"] == check and level in (issue["level"] or each["health"], ""):
                        return {**issue, "at": each["at"], "health": each["health"]}
            return None

        patience_s = max(1.0, after + within_s - time.time()) + 15
        found = wait_for(look, timeout_s=patience_s, what=f"{check} ({level}) of {name} on page {page!r}")
        late_s = found["at"] - after
        assert late_s <= within_s, f"{check} of {name} was shown after {late_s:.1f} s, {within_s} s at most"
        return found

    def clears(self, page: str, name: str, check: str, *, after: float, within_s: float) -> None:
        def look() -> float | None:
            """Since when it is gone."""
            shown = self.seen(page, name, 0.0)
            with_it = [at for at, each in enumerate(shown) if any(issue["check"] == check for issue in each["issues"])]
            without = shown[with_it[-1] + 1 :]
            return without[0]["at"] if without else None

        patience_s = max(1.0, after + within_s - time.time()) + 15
        at = wait_for(look, timeout_s=patience_s, what=f"{check} of {name} clears on page {page!r}")
        assert at - after <= within_s, f"{check} of {name} cleared after {at - after:.1f} s, {within_s} s at most"

    def ended(self, name: str, timeout_s: float) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            session: dict[str, Any] = self.server.request(f"/api/v1/sessions/{self.sessions[name]}")[1]
            return session if session["ended_at"] else None

        return wait_for(look, timeout_s=timeout_s, what=f"the session of {name} is ended")

    def session_page(self, name: str) -> Page:
        """From the wall's strip of those that dropped to the session's page."""
        wall, session = self.pages[""], self.sessions[name]
        wall.locator(f'[data-dropped="live/{name}"]').wait_for(timeout=15_000)
        link = wall.locator(f'[data-dropped="live/{name}"] a').get_attribute("href") or ""
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.faults.append(f"session of {name}: {error}"))
        page.goto(self.server.http + link)
        if session not in page.url:
            page.locator(f'a[href="/sessions/{session}/"]:visible').first.click()
        expect(page.locator(f'[data-session="{session}"]').first).to_be_visible()
        return page


def ffmpeg(*options: str) -> None:
    subprocess.run([require_tool("ffmpeg"), "-nostdin", "-v", "error", "-y", *options], check=True, timeout=120)


def pattern(rate: str = "25", source: str = "testsrc2") -> list[str]:
    return ["-f", "lavfi", "-i", f"{source}=size=320x180:rate={rate}"]


TONE = ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"]
AUDIO = ["-c:a", "aac", "-b:a", "96k", "-ac", "2"]
VIDEO = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p"]
CONSTANT = ["-b:v", "400k", "-minrate", "400k", "-maxrate", "400k", "-bufsize", "400k", "-x264-params", "nal-hrd=cbr"]
CHANGING = (
    "mandelbrot=size=320x180:rate=25[far];smptebars=size=320x180:rate=25[bars];"
    "[far][bars]overlay=enable='lt(mod(t,16),8)':shortest=1,format=yuv420p"
)
"""A picture that moves for eight seconds, then one that stands still for as long."""


def clip_with_gops(path: Path) -> None:
    keyframes = [*range(0, LONG_UNTIL_S, LONG_GOP_S), *range(LONG_UNTIL_S, 80, 2)]
    forced = ["-g", "9999", "-force_key_frames", ",".join(map(str, keyframes))]
    ffmpeg(*pattern(), *TONE, *VIDEO, "-sc_threshold", "0", *forced, *AUDIO, "-t", "80", str(path))


def clip_without_audio(path: Path) -> None:
    gap = f"aselect='lt(t,{AUDIO_UNTIL_S})+gt(t,{AUDIO_FROM_S})'"
    ffmpeg(*pattern(), *TONE, *VIDEO, "-g", "50", "-af", gap, *AUDIO, "-t", "80", str(path))


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """Everybody on air, warmed up, with pages open; then what fails at once fails."""
    require_tool("ffmpeg")
    folder = tmp_path_factory.mktemp("night")
    clip, gops, mute = folder / "clip.flv", folder / "gops.flv", folder / "mute.flv"
    make_clip(clip, seconds=20, video_kbps=KBPS, fps=25, gop=50, size="426x240")
    clip_with_gops(gops)
    clip_without_audio(mute)
    with ExitStack() as stack:
        server = stack.enter_context(running(folder / "var"))
        keys = server.create_keys(f"live/{name}" for name in STREAMS)
        server.manage("shell", "--no-imports", "-c", EXPECT_NO_VIDEO)
        browser = stack.enter_context(chromium())
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        first = context.new_page()
        log_in(first, server)
        first.close()
        slow, silent = (stack.enter_context(Uplink(server.rtmp)) for _ in range(2))
        whole = Night(server, keys, context, clip, slow, stack)
        for name in ("", "slow", "gop", "mute", "silent"):
            whole.open(name)
        every_2_s = ["-g", "50", "-keyint_min", "50", "-sc_threshold", "0"]
        whole.publish("cbr", *pattern(), *TONE, *VIDEO, *every_2_s, *CONSTANT, *AUDIO)
        whole.publish("vbr", "-f", "lavfi", "-i", CHANGING, *TONE, *VIDEO, "-g", "50", "-crf", "23", *AUDIO)
        whole.publish("ntsc", *pattern("30000/1001"), *TONE, *VIDEO, "-g", "60", *CONSTANT, *AUDIO)
        whole.publish("sound", *TONE, *AUDIO)
        whole.publish("gop", "-i", str(gops), "-c", "copy")
        whole.publish("mute", "-i", str(mute), "-c", "copy", "-max_interleave_delta", "100000")
        whole.publish_clip("slow", rtmp=slow.url)
        whole.publish_clip("silent", rtmp=silent.url)
        whole.publish_clip("killed")
        for name in STREAMS:
            whole.on_air(name)
        warm = max(whole.began.values()) + WARM_UP_S + MEAN_S
        wait_for(lambda: time.time() > warm, timeout_s=30, what="all are warmed up")
        slow.limit(SLOW * (KBPS + 128) * 1000 / 8)
        whole.began["slow cause"] = time.time()
        silent.silence()
        whole.began["silent cause"] = time.time()
        whole.programs["killed"].kill()
        whole.began["killed cause"] = time.time()
        yield whole
        assert whole.faults == []


def test_a_network_that_falls_silent_is_seen_at_once(night: Night) -> None:
    cause = night.began["silent cause"]
    for page in ("", "silent"):
        night.issue(page, "silent", "starving", "warning", after=cause, within_s=2 + SHOWN_S)
        found = night.issue(page, "silent", "starving", "bad", after=cause, within_s=5 + SHOWN_S)
        assert found["health"] == "bad"
    assert "uplink" in found["text"]
    actual, expected = found["values"]
    assert actual.endswith("s")
    assert "5" in expected


def test_an_encoder_that_is_killed_is_gone_with_its_reason(night: Night) -> None:
    session = night.ended("killed", timeout_s=5)
    assert session["end_reason"] == "tcp_reset"
    page = night.session_page("killed")
    expect(page.locator('[data-end="tcp_reset"]')).to_be_visible()
    page.close()


def test_an_uplink_that_is_too_slow_is_told_as_a_low_bitrate(night: Night) -> None:
    cause = night.began["slow cause"]
    falls_s = {level: MEAN_S * (1 - share) / (1 - SLOW) for level, share in (("", 0.7), ("bad", 0.4))}
    try:
        for page in ("", "slow"):
            for level, mean_s in falls_s.items():
                within_s = mean_s + 10 + TICK_S + SHOWN_S
                found = night.issue(page, "slow", "bitrate_low", level, after=cause, within_s=within_s)
    finally:
        night.slow.limit(None)
        night.began["slow lifted"] = time.time()
    actual, expected = found["values"]
    assert "kbit/s" in actual
    assert f"{KBPS / 1.024:.0f}" in expected, "as FFmpeg claims it: in 1,024 bits"
    assert "uplink" in found["text"]


def test_the_silent_session_ends_and_its_page_answers_in_order(night: Night) -> None:
    session = night.ended("silent", timeout_s=20)
    assert session["end_reason"] == "idle_timeout"
    url = key_url(night.keys["live/silent"], night.server.rtmp, "query").partition("?key=")[0] + "?key=wrong"
    refused = subprocess.run(
        ["ffmpeg", "-nostdin", "-v", "error", "-i", str(night.clip), "-c", "copy", "-f", "flv", url],
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert refused.returncode
    page = night.session_page("silent")
    asked = page.locator("[data-question]")
    expect(asked).to_have_count(6)
    back, why, whose, key, attempts, act = (text.lower() for text in asked.all_inner_texts())
    assert "off" in back, back
    assert "nothing" in why or "silent" in why or "no media" in why, why
    assert "key" in whose or "node" in whose, whose
    assert "key" in key, key
    assert "1" in attempts or "one" in attempts, attempts
    assert act
    page.close()


def test_who_takes_care_of_it_says_so_and_sees_it_come_back(night: Night) -> None:
    page = night.session_page("silent")
    page.fill("input[name=note]", "Called the venue: the cable was out.")
    page.get_by_role("button", name="Save the note").click()
    expect(page.locator("main")).to_contain_text("Called the venue: the cable was out.")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#acknowledged")).to_contain_text("admin")
    night.publish_clip("silent")
    night.on_air("silent")
    back = night.pages[""].locator('[data-dropped="live/silent"]')
    expect(back).to_contain_text("Back after", timeout=10_000)
    page.reload()
    expect(page.locator('[data-question="1"]')).to_contain_text("back")
    page.close()


def test_keyframes_too_far_apart_are_told_and_clear(night: Night) -> None:
    began = night.began["gop"]
    for page in ("", "gop"):
        found = night.issue(page, "gop", "gop_long", "bad", after=began, within_s=2 * LONG_GOP_S + SHOWN_S)
    actual, expected = found["values"]
    assert actual.startswith("12")
    assert expected.startswith("10")
    assert "keyframe interval" in found["text"]
    for page in ("", "gop"):
        night.clears(page, "gop", "gop_long", after=began, within_s=LONG_UNTIL_S + 4 * 2 + TICK_S + SHOWN_S)


def test_audio_that_stops_is_told_and_clears(night: Night) -> None:
    stopped = night.began["mute"] + AUDIO_UNTIL_S
    for page in ("", "mute"):
        found = night.issue(page, "mute", "no_audio", "warning", after=stopped, within_s=5 + SHOWN_S)
    assert len(found["values"]) == 2
    assert "5" in found["values"][1]
    for page in ("", "mute"):
        night.clears(page, "mute", "no_audio", after=stopped, within_s=AUDIO_FROM_S - AUDIO_UNTIL_S + TICK_S + SHOWN_S)


def test_a_lifted_throttle_clears_the_low_bitrate(night: Night) -> None:
    for page in ("", "slow"):
        night.clears(page, "slow", "bitrate_low", after=night.began["slow lifted"], within_s=20 + MEAN_S + SHOWN_S)


def test_healthy_streams_raise_nothing_in_three_minutes(night: Night) -> None:
    """Constant and variable bitrate, 29.97 frames a second, sound alone: each since it came on air."""
    last = max(night.began[name] for name in HEALTHY) + HEALTHY_S
    wait_for(lambda: time.time() > last, timeout_s=HEALTHY_S + 10, what="three minutes are over")
    for name in HEALTHY:
        assert night.programs[name].poll() is None
        snapshot = night.server.stream(f"live/{name}")
        assert (snapshot["state"], snapshot["health"], snapshot["issues"]) == ("live", "good", []), name
        events = night.server.items(f"/api/v1/sessions/{night.sessions[name]}/events")
        assert not [event for event in events if event["kind"].startswith("health.")], json.dumps(events)
        shown = night.seen("", name, 0.0)
        assert {each["health"] for each in shown if each["state"] == "live"} <= {"good", "none"}, shown
