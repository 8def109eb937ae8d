"""At two in the morning: encoders and networks fail, and an operator's pages say which, why, and what to do.

All publishers are on air at once, on one server, while the tests run one after the other. The pages themselves record
what they showed, and when (`WATCH`). Times count from the beginning of a cause.

Encoders send clips that were encoded before, again and again: live encoding would be as late as the machine is. The
time that processes, or the machine, stood still for want of a processor is measured, and excuses as much lateness.
"""

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple, Self

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from ingest.live.health.engine import WARM_UP_S
from tests.browser import chromium, log_in
from tests.e2e.test_clients import UPLINK_BYTES, Proxy, recorded
from tests.media import TONE, encode, make_clip, pattern
from tests.programs import key_url, on_air, publishing
from tests.rtmpweb.processes import thread_waited_s, threads_waited_s
from tests.server_process import ServerProcess, running, wait_for
from tests.tools import require_tool

pytestmark = [
    pytest.mark.serve,
    pytest.mark.browser,
    pytest.mark.clients,
    pytest.mark.measures_time,
    pytest.mark.timeout(180),
]

TICK_S = 1.0
"""Streams are judged so often, so holds last whole ticks."""
MEAN_S = 5.0
"""Bitrates are means of so long."""
SLOW = 0.25
"""The share of the data that the slow uplink lets through."""
SLOW_FROM_S = 6.0
"""On air; its effect on the mean is complete when the warm-up is over."""
HEALTHY_S = 42.0
"""The warm-up and the longest hold, of 30 s. Means of a minute and more: see tests/soak."""

# --- How long the machine stood still ---

SAMPLE_S = 0.2
LATE_S = 0.2
"""A sample that is later than this, without the sampler's own waiting, shows that the machine stood still."""


class Sample(NamedTuple):
    at: float
    machine_s: float
    """The time so far that the whole machine stood still."""
    waited_s: Mapping[str, Mapping[str, float]]
    """{process: {thread: the time so far that it was ready to run and others had the processors}}"""


class CpuStallMonitor:
    """Samples in a thread how long processes waited for a processor. `pids`: {name of a process here: its pid}."""

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids
        self._samples: list[Sample] = []
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._samples.append(self._sample(Sample(0.0, 0.0, {})))
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def between(self, begin: float, end: float, *names: str) -> float:
        """Return the seconds that the machine, or these processes one after the other, stood still in between.

        Of a process only the thread that waited longest counts: others that waited meanwhile delayed nothing more.
        """
        later = wait_for(
            lambda: next((each for each in self._samples if each.at >= end), None), timeout_s=30, what="a later sample"
        )
        former = next((each for each in reversed(self._samples) if each.at <= begin), self._samples[0])
        waited_s = 0.0
        for name in names:
            known, found = (each.waited_s.get(name, {}) for each in (former, later))
            waited_s += max((waited - known.get(thread, 0.0) for thread, waited in found.items()), default=0.0)
        return max(later.machine_s - former.machine_s, waited_s)

    def _run(self) -> None:
        own_s = thread_waited_s()
        while not self._over.wait(SAMPLE_S):
            late_s = time.time() - self._samples[-1].at - SAMPLE_S - (thread_waited_s() - own_s)
            self._samples.append(self._sample(self._samples[-1], late_s if late_s > LATE_S else 0.0))
            own_s = thread_waited_s()

    def _sample(self, former: Sample, late_s: float = 0.0) -> Sample:
        found = {name: threads_waited_s(pid) for name, pid in self._pids().items()}
        waited_s = {**former.waited_s, **{name: threads for name, threads in found.items() if threads}}
        return Sample(time.time(), former.machine_s + late_s, waited_s)


# --- The encoders ---

HEALTHY = ("cbr", "vbr", "ntsc", "sound")
KBPS = 800
"""The bitrate of `slow`, `silent` and `killed`."""
LONG_GOP_S = 11
LONG_UNTIL_S = 33
"""Keyframes of `gop` are so far apart until then, and 2 s afterwards."""
AUDIO_UNTIL_S, AUDIO_FROM_S = 12, 22
"""`mute` has no sound in between."""
JUMP_AFTER_S, JUMP_S = 15, 30
"""The timestamps of `jump` leap."""

SIZE = "320x180"
AUDIO = ("-c:a", "aac", "-b:a", "96k", "-ac", "2")
VIDEO = ("-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p")
CONSTANT = ("-b:v", "400k", "-minrate", "400k", "-maxrate", "400k", "-bufsize", "400k", "-x264-params", "nal-hrd=cbr")
EVERY_2_S = ("-g", "50", "-keyint_min", "50", "-sc_threshold", "0")
CHANGING = (
    *("-f", "lavfi", "-i"),
    "mandelbrot=size=320x180:rate=25[far];smptebars=size=320x180:rate=25[bars];"
    "[far][bars]overlay=enable='lt(mod(t,16),8)':shortest=1,format=yuv420p",
)
"""A picture that stands still for eight seconds, then one that moves for as long."""
KEYFRAMES = [*range(0, LONG_UNTIL_S, LONG_GOP_S), *range(LONG_UNTIL_S, 60, 2)]
FAR_APART = ("-sc_threshold", "0", "-g", "9999", "-force_key_frames", ",".join(map(str, KEYFRAMES)))
GAP = f"aselect='lt(t,{AUDIO_UNTIL_S})+gt(t,{AUDIO_FROM_S})'"
# FFmpeg shifts the timestamps as it copies, and writes pictures without waiting for sound that is missing.
JUMP = f"setts=ts=TS+{JUMP_S * 1000}*gte(TS\\,{JUMP_AFTER_S * 1000})"
AT_25 = pattern(SIZE, 25)

ENCODED = {
    "cbr": (*AT_25, *TONE, *VIDEO, *EVERY_2_S, *CONSTANT, *AUDIO, "-t", "16"),
    "vbr": (*CHANGING, *TONE, *VIDEO, "-g", "50", "-crf", "23", *AUDIO, "-t", "16"),
    "ntsc": (*pattern(SIZE, "30000/1001"), *TONE, *VIDEO, "-g", "60", *CONSTANT, *AUDIO, "-t", "16.016"),
    "sound": (*TONE, *AUDIO, "-t", "16"),
    "gop": (*AT_25, *TONE, *VIDEO, *FAR_APART, *AUDIO, "-t", "60"),
    "mute": (*AT_25, *TONE, *VIDEO, "-g", "50", "-af", GAP, *AUDIO, "-t", "60"),
    "jump": (*AT_25, *TONE, *VIDEO, *EVERY_2_S, *CONSTANT, *AUDIO, "-t", "60"),
}
"""{stream: how FFmpeg encodes its clip}. 16 s are whole groups of pictures and whole frames of sound, so timestamps go
on from one round to the next. `gop`, `mute` and `jump` have shown their fault before they begin again.
"""
OPTIONS = {"mute": ("-max_interleave_delta", "100000"), "jump": ("-bsf:v", JUMP, "-bsf:a", JUMP)}
"""{stream: options of the encoder that sends it}"""

EXPECT_NO_VIDEO = """
from ingest.models import Stream
Stream.objects.filter(name="sound").update(expect_video=False)
"""


def clip_of(name: str, folder: Path) -> Path:
    clip = folder / f"{name}.flv"
    if name in ENCODED:
        return encode(clip, *ENCODED[name])
    return make_clip(clip, seconds=8, video_kbps=KBPS, fps=25, gop=50, size="426x240")


# --- The pages ---

JUDGED_S = 1.5
"""Added to a bound for the event: streams are judged once a second."""
SHOWN_S = 6.0
"""From the event to the page: events are pushed at once. A browser on a busy machine draws late."""
STARVED_S = {"warning": 1.5, "bad": 4.5}
"""An encoder (or its server) that stood still for so long starves: the limits are 2 and 5 s."""
BEFORE_S = 3.5
"""Within so much more time before the event: streams are judged once a second, and that may be late as well."""

SERVER = "the server"
WELL = ("good", "none")
"""Health on the wall. Before the first judgement, and without media, it is none."""

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
"""Records the state of each stream on the page whenever it changes: `seen`."""


@dataclass
class Night:
    server: ServerProcess
    keys: dict[str, dict[str, Any]]
    context: BrowserContext
    clips: dict[str, Path]
    uplinks: dict[str, Proxy]
    """Between some encoders and the server."""
    stack: ExitStack
    stalls: CpuStallMonitor = field(init=False)
    faults: list[str] = field(default_factory=list)
    """Errors of the pages' scripts."""
    began: dict[str, float] = field(default_factory=dict)
    """When each stream's session began, and when its cause did: "slow", "slow cause"."""
    sessions: dict[str, str] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    """The pages of streams; "" is the wall."""
    programs: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stalls = self.stack.enter_context(CpuStallMonitor(self._pids))

    def _pids(self) -> dict[str, int]:
        encoders = {name: encoder.pid for name, encoder in list(self.programs.items())}
        return {**encoders, SERVER: self.server.process.pid}

    def _page(self, name: str) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.faults.append(f"{name}: {error}"))
        page.on("console", lambda said: self.faults.append(f"{name}: {said.text}") if said.type == "error" else None)
        return page

    def open(self, name: str) -> None:
        page = self._page(name)
        page.goto(f"{self.server.http}/streams/live/{name}/" if name else f"{self.server.http}/")
        page.evaluate(WATCH)
        self.pages[name] = page

    def publish(self, name: str) -> None:
        key, rtmp = self.keys[f"live/{name}"], self.uplinks[name].url if name in self.uplinks else self.server.rtmp
        url, options = key_url(key, rtmp, "query"), OPTIONS.get(name, ())
        encoding = on_air(self.server, key, self.clips[name], *options, url=url)
        self.programs[name], snapshot = self.stack.enter_context(encoding)
        self.began[name] = datetime.fromisoformat(snapshot["since"]).timestamp()
        self.sessions[name] = snapshot["session_id"]

    def seen(self, page: str, name: str, after: float) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.pages[page].evaluate("window.seen")
        return [each for each in found if each["path"] == f"live/{name}" and each["at"] >= after]

    def events(self, name: str, kind: str) -> list[dict[str, Any]]:
        """Return events of the stream's session, latest first. `kind`: how their kinds begin."""
        found = self.server.items(f"/api/v1/sessions/{self.sessions[name]}/events")
        return [event for event in found if event["kind"].startswith(kind)]

    def issue(self, page: str, name: str, check: str, level: str, *, after: float, within_s: float) -> dict[str, Any]:
        """Return the issue as it was first shown. It opens `within_s` and the time to judge, then the page shows it.

        `level`: "" for any. The wall shows it as the health of the card.
        """
        opened_at = self._judged("health.opened", name, check, level, after=after, within_s=within_s)

        def look() -> dict[str, Any] | None:
            for each in self.seen(page, name, after):
                for issue in each["issues"]:
                    if issue["check"] == check and level in (issue["level"] or each["health"], ""):
                        return {**issue, "at": each["at"], "health": each["health"]}
            return None

        found = wait_for(look, timeout_s=15, what=f"{check} ({level}) of {name} on page {page!r}")
        late_s = found["at"] - opened_at
        assert late_s <= SHOWN_S, f"{check} ({level}) of {name} was shown after {late_s:.1f} s, {SHOWN_S} s at most"
        return found

    def clears(self, page: str, name: str, check: str, *, after: float, within_s: float) -> None:
        """Wait until the issue clears and the page shows that, by the bounds of `issue`."""
        cleared_at = self._judged("health.cleared", name, check, "status", after=after, within_s=within_s)

        def look() -> float | None:
            gone = (
                each["at"]
                for each in self.seen(page, name, cleared_at)
                if all(issue["check"] != check for issue in each["issues"])
            )
            return next(gone, None)

        late_s = wait_for(look, timeout_s=15, what=f"{check} of {name} clears on page {page!r}") - cleared_at
        assert late_s <= SHOWN_S, f"{check} of {name} was gone after {late_s:.1f} s, {SHOWN_S} s at most"

    def _judged(self, kind: str, name: str, check: str, level: str, *, after: float, within_s: float) -> float:
        def look() -> float | None:
            for event in reversed(self.events(name, kind)):
                at = datetime.fromisoformat(event["at"]).timestamp()
                if event["code"] == check and level in (event["level"], "") and at >= after:
                    return at
            return None

        patience_s = max(1.0, after + within_s - time.time()) + 15
        at = wait_for(look, timeout_s=patience_s, what=f"{kind}: {check} ({level}) of {name}")
        late_s, most_s = at - after, within_s + JUDGED_S + self.stalls.between(after, at, name, SERVER)
        assert late_s <= most_s, f"{kind}: {check} ({level}) of {name} after {late_s:.1f} s, {most_s:.1f} s at most"
        return at

    def stays_healthy(self, names: Iterable[str], for_s: float) -> None:
        """Assert that each stream had no issue since it came on air, in the server's events and on the wall.

        Silences while an encoder (or its server) stood still do not count, but must be over.
        """
        names = list(names)
        last = max(self.began[name] for name in names) + for_s
        wait_for(lambda: time.time() > last, timeout_s=for_s + 10, what="all were on air for long enough")
        for name in names:
            assert self.programs[name].poll() is None
            assert [event for event in self.events(name, "health.") if self._is_fault(event, name)] == [], name
            wait_for(partial(self._is_well, name), timeout_s=15, what=f"{name} is well, and the wall says so")
            # Events are written a little later than they are shown.
            wait_for(partial(self._was_well, name), timeout_s=10, what=f"the wall showed only silences of {name}")

    def _is_fault(self, event: dict[str, Any], name: str) -> bool:
        if event["code"] != "starving":
            return True
        at, starved_s = datetime.fromisoformat(event["at"]).timestamp(), STARVED_S.get(event["level"], 0.0)
        return self.stalls.between(at - starved_s - BEFORE_S, at, name, SERVER) < starved_s

    def _is_well(self, name: str) -> bool:
        snapshot = self.server.stream(f"live/{name}")
        assert (snapshot["state"], snapshot["session_id"]) == ("live", self.sessions[name])
        shown = [each for each in self.seen("", name, 0.0) if each["state"] == "live"]
        assert shown
        return (snapshot["health"], snapshot["issues"]) == ("good", []) and shown[-1]["health"] in WELL

    def _was_well(self, name: str) -> bool:
        """Return True if the wall showed the stream as well at all times except during silences."""
        shown = self.seen("", name, 0.0)
        silences: list[tuple[float, float]] = []
        begin = None
        for event in reversed(self.events(name, "health.")):
            assert not self._is_fault(event, name), f"{name}: {event}"
            at = datetime.fromisoformat(event["at"]).timestamp()
            if event["kind"] == "health.cleared":
                silences.append((at if begin is None else begin, at + SHOWN_S))
                begin = None
            elif begin is None:
                begin = at
        return all(
            any(begin <= each["at"] and then["at"] <= end for begin, end in silences)
            for each, then in pairwise(shown)
            if each["state"] == "live" and each["health"] not in WELL
        )

    def ended(self, name: str, timeout_s: float) -> dict[str, Any]:
        return self.server.wait_for_end(f"live/{name}", self.sessions[name], timeout_s)

    def session_page(self, name: str) -> Page:
        """Open the page of a session from the wall's strip of dropped streams."""
        wall, session = self.pages[""], self.sessions[name]
        wall.locator(f'[data-dropped="live/{name}"]').wait_for(timeout=15_000)
        link = wall.locator(f'[data-dropped="live/{name}"] a').get_attribute("href") or ""
        page = self._page(f"session of {name}")
        page.goto(self.server.http + link)
        if session not in page.url:
            page.locator(f'a[href="/sessions/{session}/"]:visible').first.click()
        expect(page.locator(f'[data-session="{session}"]').first).to_be_visible()
        return page


@contextmanager
def at_night(
    folder: Path, streams: Iterable[str], uplinks: Iterable[str] = (), pages: Iterable[str] = ()
) -> Iterator[Night]:
    """All streams are on air, and the wall and some streams' `pages` are open. The `uplinks` can fail."""
    require_tool("ffmpeg")
    streams = list(streams)
    with ExitStack() as stack:
        with ThreadPoolExecutor() as pool:
            making = {name: pool.submit(clip_of, name, folder) for name in streams}
            server = stack.enter_context(running(folder / "var"))
            keys = server.create_keys((f"live/{name}" for name in streams), then=EXPECT_NO_VIDEO)
        clips = {name: clip.result() for name, clip in making.items()}
        between = {name: stack.enter_context(recorded(server.rtmp, buffer_bytes=UPLINK_BYTES)) for name in uplinks}
        browser = stack.enter_context(chromium())
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        night = Night(server, keys, context, clips, between, stack)
        first = context.new_page()
        log_in(first, server)
        first.close()
        for name in ("", *pages):  # Before the encoders: clips show their faults in their first half minute.
            night.open(name)
        for name in streams:
            night.publish(name)
        yield night
        assert night.faults == []
        for encoder in night.programs.values():
            encoder.terminate()  # All at once; the stack waits for each.


# --- The tests ---

WAKING = """
    INSERT INTO dashboard_alertrule (name, enabled, kinds, checks, level, days, time_zone, delay_s, repeat_min, emails,
                                     is_scoped, created_at)
    VALUES ('Wake', true, '["health", "ended"]', '["starving"]', 'bad', '[]', 'UTC', 0, 0, 'ops@example.org',
            false, '2026-01-01')
    RETURNING id
"""
"""A rule that sends alerts at night."""


def wait_until(moment: float) -> None:
    wait_for(lambda: time.time() >= moment, timeout_s=30, what="the moment of a cause")


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """All encoders on air, with pages open; then those fail that fail at once."""
    streams = ("slow", "gop", "mute", "silent", "killed", *HEALTHY)
    failing = streams[:4]
    with at_night(tmp_path_factory.mktemp("night"), streams, uplinks=("slow", "silent"), pages=failing) as whole:
        whole.server.rows(WAKING)
        wait_until(whole.began["slow"] + SLOW_FROM_S)
        whole.uplinks["slow"].limit(SLOW * (KBPS + 128) * 1000 / 8)
        whole.began["slow cause"] = time.time()
        wait_until(whole.began["silent"] + WARM_UP_S)
        whole.uplinks["silent"].limit(0)
        whole.began["silent cause"] = time.time()
        whole.programs["killed"].kill()
        yield whole


def test_a_network_that_falls_silent_is_seen_at_once(night: Night) -> None:
    cause = night.began["silent cause"]
    for page in ("", "silent"):
        night.issue(page, "silent", "starving", "warning", after=cause, within_s=2)
        found = night.issue(page, "silent", "starving", "bad", after=cause, within_s=5)
        assert found["health"] == "bad"
    assert "uplink" in found["text"]
    actual, expected = found["values"]
    assert actual.endswith("s")
    assert expected == "at most 5\N{NO-BREAK SPACE}s"


def test_an_encoder_that_is_killed_is_gone_with_its_reason(night: Night) -> None:
    session = night.ended("killed", timeout_s=20)
    assert session["end_reason"] == "tcp_reset"
    page = night.session_page("killed")
    expect(page.locator('[data-end="tcp_reset"]')).to_be_visible()
    page.close()


def test_alert_of_a_stream_that_ends_with_an_open_issue_is_not_fixed(night: Night) -> None:
    night.ended("silent", timeout_s=30)

    def alerts() -> dict[str, dict[str, Any]] | None:
        found = {each["kind"]: each for each in night.server.items("/api/v1/alerts?subject=live/silent")}
        return found if "ended" in found and found["health"]["cleared_at"] else None

    found = wait_for(alerts, timeout_s=15, what="the alerts of the stream that fell silent")
    issue, drop = found["health"], found["ended"]
    assert (issue["outcome"], issue["end_reason"]) == ("dropped", "idle_timeout")
    assert issue["cleared_why"].startswith("Stream dropped: ")
    assert f"The issue was not fixed: {issue['title']}" in issue["cleared_why"]
    assert (drop["outcome"], drop["cleared_at"], drop["end_reason"]) == ("", None, "idle_timeout")
    wall = night.context.new_page()
    wall.goto(f"{night.server.http}/alerts/")
    expect(wall.locator(f'[data-alert="{issue["id"]}"]')).to_contain_text("Dropped, not fixed")
    expect(wall.locator(f'[data-alert="{drop["id"]}"]')).to_contain_text("no mail server is set")
    wall.close()


def test_an_uplink_that_is_too_slow_is_told_as_a_low_bitrate(night: Night) -> None:
    cause = night.began["slow cause"]
    warm_s = max(0.0, night.began["slow"] + WARM_UP_S - cause)
    falls_s = {level: MEAN_S * (1 - share) / (1 - SLOW) for level, share in (("", 0.7), ("bad", 0.4))}
    try:
        for page in ("", "slow"):
            for level, mean_s in falls_s.items():
                within_s = max(mean_s, warm_s) + 10 + TICK_S
                found = night.issue(page, "slow", "bitrate_low", level, after=cause, within_s=within_s)
    finally:
        night.uplinks["slow"].limit(None)
        night.began["slow lifted"] = time.time()
    actual, expected = found["values"]
    assert "kbit/s" in actual
    assert f"{KBPS / 1.024:.0f}" in expected, "as FFmpeg claims it: in 1,024 bits"
    assert "uplink" in found["text"]


def test_the_silent_session_ends_and_its_page_answers_in_order(night: Night) -> None:
    session = night.ended("silent", timeout_s=30)
    assert session["end_reason"] == "idle_timeout"
    url = key_url(night.keys["live/silent"], night.server.rtmp, "query").partition("?key=")[0] + "?key=wrong"
    refused = subprocess.run(publishing(night.clips["silent"], url), capture_output=True, timeout=60)
    assert refused.returncode
    # The page is made once: the attempt has to be written by then.
    of_it = "/api/v1/attempts?reason=key_unknown&name=silent"
    wait_for(lambda: night.server.items(of_it), timeout_s=20, what="the attempt is written")
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


def test_operator_notes_and_acknowledges_a_drop_and_sees_it_come_back(night: Night) -> None:
    page = night.session_page("silent")
    page.fill("input[name=note]", "Called the venue: the cable was out.")
    page.get_by_role("button", name="Save the note").click()
    expect(page.locator("main")).to_contain_text("Called the venue: the cable was out.")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#acknowledged")).to_contain_text("admin")
    night.uplinks["silent"].limit(None)
    night.publish("silent")
    back = night.pages[""].locator('[data-dropped="live/silent"]')
    expect(back).to_contain_text("Back after", timeout=10_000)
    page.reload()
    expect(page.locator('[data-question="1"]')).to_contain_text("back")
    page.close()


def test_long_keyframe_interval_raises_an_issue_that_clears(night: Night) -> None:
    began = night.began["gop"]
    for page in ("", "gop"):
        found = night.issue(page, "gop", "gop_long", "bad", after=began, within_s=2 * LONG_GOP_S)
    actual, expected = found["values"]
    assert actual.startswith("11")
    assert expected == "at most 10\N{NO-BREAK SPACE}s"
    assert "keyframe interval" in found["text"]
    for page in ("", "gop"):
        night.clears(page, "gop", "gop_long", after=began, within_s=LONG_UNTIL_S + 4 * 2)


def test_missing_audio_raises_an_issue_that_clears(night: Night) -> None:
    stopped = night.began["mute"] + AUDIO_UNTIL_S
    for page in ("", "mute"):
        found = night.issue(page, "mute", "no_audio", "warning", after=stopped, within_s=5)
    assert len(found["values"]) == 2
    assert "5" in found["values"][1]
    for page in ("", "mute"):
        night.clears(page, "mute", "no_audio", after=stopped, within_s=AUDIO_FROM_S - AUDIO_UNTIL_S)


def test_a_lifted_throttle_clears_the_low_bitrate(night: Night) -> None:
    for page in ("", "slow"):
        night.clears(page, "slow", "bitrate_low", after=night.began["slow lifted"], within_s=MEAN_S + 20 + TICK_S)


def test_healthy_streams_raise_nothing(night: Night) -> None:
    """Constant and variable bitrate, 29.97 frames a second, sound alone: each since it came on air."""
    night.stays_healthy(HEALTHY, HEALTHY_S)
