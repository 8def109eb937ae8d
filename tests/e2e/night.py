"""A night of encoders and networks that fail, on one server, and pages that keep what they showed of it, and when.

Encoders send clips again and again, which were encoded before: coded live they would be as late as the machine is. How
long processes, and the machine, stood still for want of a processor is known: what came that much later came in time.
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

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser import chromium, log_in
from tests.media import make_clip
from tests.programs import LOOPED, key_url, publishing, wait_refused
from tests.rtmpweb.processes import thread_waited_s, threads_waited_s
from tests.server_process import ServerProcess, program, running, wait_for
from tests.tools import require_tool
from tests.wiretap.proxy import UPLINK_BYTES, Proxy, recorded

EACH_S = 0.2
"""Between two looks."""
LATE_S = 0.2
"""A look that is so late, but for what it waited itself, tells of a machine that stood still: no kernel counts it."""


class Look(NamedTuple):
    at: float
    machine_s: float
    """What the machine has stood still as a whole."""
    waited_s: Mapping[str, Mapping[str, float]]
    """Of each thread of each process: how long it was ready to run and others had the processors."""


class Stalls:
    """Looks on in a thread while the block runs. `pids`: by what a process is called here."""

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids
        self._looks: list[Look] = []
        self._done = Event()
        self._thread = Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self._looks.append(self._look(Look(0.0, 0.0, {})))
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._done.set()
        self._thread.join()

    def between(self, begin: float, end: float, *names: str) -> float:
        """What these processes stood still then, one after the other, or the machine did as a whole, in seconds.

        Of a process it is what one of its threads waited at most: others that waited meanwhile delayed nothing more.
        """
        later = wait_for(
            lambda: next((look for look in self._looks if look.at >= end), None), timeout_s=30, what="a look after it"
        )
        former = next((look for look in reversed(self._looks) if look.at <= begin), self._looks[0])
        waited_s = 0.0
        for name in names:
            known, found = (look.waited_s.get(name, {}) for look in (former, later))
            waited_s += max((waited - known.get(thread, 0.0) for thread, waited in found.items()), default=0.0)
        return max(later.machine_s - former.machine_s, waited_s)

    def _look_on(self) -> None:
        own_s = thread_waited_s()
        while not self._done.wait(EACH_S):
            late_s = time.time() - self._looks[-1].at - EACH_S - (thread_waited_s() - own_s)
            self._looks.append(self._look(self._looks[-1], late_s if late_s > LATE_S else 0.0))
            own_s = thread_waited_s()

    def _look(self, former: Look, late_s: float = 0.0) -> Look:
        found = {name: threads_waited_s(pid) for name, pid in self._pids().items()}
        waited_s = {**former.waited_s, **{name: threads for name, threads in found.items() if threads}}
        return Look(time.time(), former.machine_s + late_s, waited_s)


JUDGED_S = 1.5
"""For the event after its time has come: streams are judged once a second. More by what stood still (`stalls`)."""
SHOWN_S = 6.0
"""After the event, for a page to show it: it is told at once, or never. A browser on a busy machine draws late."""
STARVED_S = {"warning": 1.5, "bad": 4.5}
"""An encoder (or its server) that stood still for so long is rightly said to starve: that is said after 2 and 5 s."""
BEFORE_S = 3.5
"""Within so much more time before it is said: streams are judged once a second, and that may be late as well."""

SERVER = "the server"

WELL = ("good", "none")
"""Health, as the wall says it. Before the first judgement, and without media, there is none."""

HEALTHY = ("cbr", "vbr", "ntsc", "sound")

KBPS = 800
"""Of what `slow`, `silent` and `killed` send."""
LONG_GOP_S = 11
LONG_UNTIL_S = 33
"""Keyframes are so far apart in `gop` until then, 2 s afterwards."""
AUDIO_UNTIL_S, AUDIO_FROM_S = 12, 22
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
    clips: dict[str, Path]
    """What each stream's encoder sends."""
    uplinks: dict[str, Proxy]
    """Between some encoders and the server."""
    stack: ExitStack
    stalls: Stalls = field(init=False)
    faults: list[str] = field(default_factory=list)
    """Errors of the pages' scripts."""
    began: dict[str, float] = field(default_factory=dict)
    """When each stream's session began, and when its cause did: "slow", "slow cause"."""
    repeats: int = 0
    """How often an encoder came again that was refused."""
    sessions: dict[str, str] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    """The streams' own; "" is the wall."""
    programs: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stalls = self.stack.enter_context(Stalls(self._pids))

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
        rtmp = self.uplinks[name].url if name in self.uplinks else self.server.rtmp
        url = key_url(self.keys[f"live/{name}"], rtmp, "query")
        *command, form, flv, where = publishing(self.clips[name], url, "-nostdin", *LOOPED)
        self.programs[name] = self.stack.enter_context(program(*command, *OPTIONS.get(name, ()), form, flv, where))

    def on_air(self, name: str) -> None:
        """Waits until it is. Who is refused, as the database was busy, comes again as encoders do; nobody else does."""

        def look() -> dict[str, Any] | None:
            snapshot = self.server.stream(f"live/{name}")
            if snapshot["state"] == "live":
                return snapshot
            if self.programs[name].poll() is not None:
                wait_refused(self.server, self.repeats)
                self.repeats += 1
                self.publish(name)
            return None

        snapshot = wait_for(look, timeout_s=60, what=f"{name} is on air")
        self.began[name] = datetime.fromisoformat(snapshot["since"]).timestamp()
        self.sessions[name] = snapshot["session_id"]

    def seen(self, page: str, name: str, after: float) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.pages[page].evaluate("window.seen")
        return [each for each in found if each["path"] == f"live/{name}" and each["at"] >= after]

    def events(self, name: str, kind: str) -> list[dict[str, Any]]:
        """Of the stream's session, of kinds that begin so, the latest first."""
        found = self.server.items(f"/api/v1/sessions/{self.sessions[name]}/events")
        return [event for event in found if event["kind"].startswith(kind)]

    def issue(self, page: str, name: str, check: str, level: str, *, after: float, within_s: float) -> dict[str, Any]:
        """The issue, as it was first shown: opened `within_s` and the time to judge, then seen on the page.

        `level` is known on the stream's page, and on the wall by its card; "": any.
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
        """As `issue`."""
        cleared_at = self._judged("health.cleared", name, check, "status", after=after, within_s=within_s)

        def look() -> float | None:
            """Since when it is gone."""
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
        """Each since it came on air: no issue by the server's word now and in its events, nor ever on the wall.

        But for silences while an encoder (or its server) stood still: they are over, and the wall shows nothing else.
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
        """The wall showed it so, but from when a silence was told until it was over, and the time to show that."""
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
        """From the wall's strip of those that dropped to the session's page."""
        wall, session = self.pages[""], self.sessions[name]
        wall.locator(f'[data-dropped="live/{name}"]').wait_for(timeout=15_000)
        link = wall.locator(f'[data-dropped="live/{name}"] a').get_attribute("href") or ""
        page = self._page(f"session of {name}")
        page.goto(self.server.http + link)
        if session not in page.url:
            page.locator(f'a[href="/sessions/{session}/"]:visible').first.click()
        expect(page.locator(f'[data-session="{session}"]').first).to_be_visible()
        return page


def ffmpeg(*options: str) -> None:
    subprocess.run([require_tool("ffmpeg"), "-nostdin", "-v", "error", "-y", *options], check=True, timeout=120)


def pattern(rate: str = "25") -> list[str]:
    return ["-f", "lavfi", "-i", f"testsrc2=size=320x180:rate={rate}"]


TONE = ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"]
AUDIO = ["-c:a", "aac", "-b:a", "96k", "-ac", "2"]
VIDEO = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p"]
CONSTANT = ["-b:v", "400k", "-minrate", "400k", "-maxrate", "400k", "-bufsize", "400k", "-x264-params", "nal-hrd=cbr"]
EVERY_2_S = ["-g", "50", "-keyint_min", "50", "-sc_threshold", "0"]
CHANGING = [
    *("-f", "lavfi", "-i"),
    "mandelbrot=size=320x180:rate=25[far];smptebars=size=320x180:rate=25[bars];"
    "[far][bars]overlay=enable='lt(mod(t,16),8)':shortest=1,format=yuv420p",
]
"""A picture that stands still for eight seconds, then one that moves for as long."""
KEYFRAMES = [*range(0, LONG_UNTIL_S, LONG_GOP_S), *range(LONG_UNTIL_S, 60, 2)]
FAR_APART = ["-sc_threshold", "0", "-g", "9999", "-force_key_frames", ",".join(map(str, KEYFRAMES))]
GAP = f"aselect='lt(t,{AUDIO_UNTIL_S})+gt(t,{AUDIO_FROM_S})'"

ENCODED = {
    "cbr": [*pattern(), *TONE, *VIDEO, *EVERY_2_S, *CONSTANT, *AUDIO, "-t", "16"],
    "vbr": [*CHANGING, *TONE, *VIDEO, "-g", "50", "-crf", "23", *AUDIO, "-t", "16"],
    "ntsc": [*pattern("30000/1001"), *TONE, *VIDEO, "-g", "60", *CONSTANT, *AUDIO, "-t", "16.016"],
    "sound": [*TONE, *AUDIO, "-t", "16"],
    "gop": [*pattern(), *TONE, *VIDEO, *FAR_APART, *AUDIO, "-t", "60"],
    "mute": [*pattern(), *TONE, *VIDEO, "-g", "50", "-af", GAP, *AUDIO, "-t", "60"],
    "jump": [*pattern(), *TONE, *VIDEO, *EVERY_2_S, *CONSTANT, *AUDIO, "-t", "60"],
}
"""{stream: how FFmpeg codes what it sends}. 16 s are whole groups of pictures and whole frames of sound: from one round
to the next timestamps go on as within it. `gop`, `mute` and `jump` have done what they are for before they begin again.
"""
JUMP_AFTER_S, JUMP_S = 15, 30
JUMP = f"setts=ts=TS+{JUMP_S * 1000}*gte(TS\\,{JUMP_AFTER_S * 1000})"
OPTIONS = {
    "mute": ["-max_interleave_delta", "100000"],  # Sound that is missing holds no pictures up.
    "jump": ["-bsf:v", JUMP, "-bsf:a", JUMP],
}
"""Of the encoder that sends it."""


def clip_of(name: str, folder: Path) -> Path:
    clip = folder / f"{name}.flv"
    if name in ENCODED:
        ffmpeg(*ENCODED[name], str(clip))
        return clip
    return make_clip(clip, seconds=8, video_kbps=KBPS, fps=25, gop=50, size="426x240")


@contextmanager
def at_night(
    folder: Path, streams: Iterable[str], uplinks: Iterable[str] = (), pages: Iterable[str] = ()
) -> Iterator[Night]:
    """All are on air, and the wall is open, as are the pages of some. `uplinks`: whose encoders' networks can fail."""
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
        for name in ("", *pages):  # However long that takes: what a clip is for is in its first half minute.
            night.open(name)
        for name in streams:
            night.publish(name)
        for name in streams:
            night.on_air(name)
        yield night
        assert night.faults == []
        for encoder in night.programs.values():
            encoder.terminate()  # All at once; the stack waits for each.
