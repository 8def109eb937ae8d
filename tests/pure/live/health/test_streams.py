"""Whole streams, healthy and not, and what is said of them when."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ingest.contracts import Issue
from ingest.live import LiveSettings, LiveStream, SocketFigures
from ingest.live.health import CHECKS, STANDS_STILL
from tests.pure.live.payloads import (
    AAC_HEADER,
    START_WALL,
    Player,
    Socket,
    avc_header,
    inter,
    keyframe,
    make_stream,
    publisher,
    session,
    sound,
)


@dataclass
class Message:
    at: float
    """When it leaves the encoder, and, after a network, when it arrives (s)."""
    kind: str
    timestamp: int
    size: int
    is_keyframe: bool = False


class Watched:
    """A stream whose issues are noted each second."""

    def __init__(
        self, *, metadata: dict[str, Any] | None = None, settings: LiveSettings | None = None, **limits: Any
    ) -> None:
        self.stream: LiveStream = make_stream(settings)
        who = publisher(**{"idle_timeout_s": 1e9, **limits})
        self.socket = who.socket = Socket()
        self.stream.start(who, 0.0)
        self.seconds: list[dict[str, str]] = []
        """The levels by check, of each second from 1 on."""
        self._received = 0
        self._next = 1
        if metadata:
            self.stream.data(0, "onMetaData", [metadata], b"metadata", 0.0)
        self.stream.audio(0, AAC_HEADER, 0.0)
        self.stream.video(0, avc_header(), 0.0)

    def play(self, messages: list[Message], until: float | None = None) -> "Watched":
        ordered = sorted(messages, key=lambda message: message.at)
        for number, message in enumerate(ordered):
            self._tick_to(message.at)
            self._received += message.size
            self.socket.figures = SocketFigures(self._received, self.socket.figures.rtt_ms)
            if message.kind == "audio":
                self.stream.audio(message.timestamp, sound(number, message.size), message.at)
            else:
                payload = (keyframe if message.is_keyframe else inter)(number, message.size)
                self.stream.video(message.timestamp, payload, message.at)
        self._tick_to(until if until is not None else ordered[-1].at)
        return self

    def take(self, is_video: bool, timestamp: int, payload: bytes) -> None:
        """A message as an encoder made it, at its time."""
        at = timestamp / 1000
        self._tick_to(at)
        (self.stream.video if is_video else self.stream.audio)(timestamp, payload, at)

    def _tick_to(self, at: float) -> None:
        while self._next <= at:
            self.stream.tick(float(self._next), START_WALL + self._next)
            self.seconds.append({issue["check"]: issue["level"] for issue in self.issues})
            self._next += 1

    @property
    def issues(self) -> list[Issue]:
        """Those that are open now."""
        return session(self.stream).evaluation.health.issues

    @property
    def codes(self) -> set[str]:
        """All that was ever open."""
        return {code for second in self.seconds for code in second}

    def opened(self, code: str, level: str = "") -> int | None:
        """The second (from 1) in which it was first open, at that level."""
        return next((at for at, found in self._with(code) if found and level in ("", found)), None)

    def cleared(self, code: str) -> int | None:
        """The second in which it was open no more."""
        was_open = False
        for at, found in self._with(code):
            if was_open and not found:
                return at
            was_open = bool(found)
        return None

    def _with(self, code: str) -> Iterator[tuple[int, str]]:
        for at, second in enumerate(self.seconds, 1):
            yield at, second.get(code, "")


HEADER = 5
AUDIO_FPS = 48_000 / 1024


def video(
    seconds: float,
    *,
    fps: float = 30.0,
    kbps: float | Callable[[float], float] = 800.0,
    gop_s: float = 2.0,
    key_weight: float = 8.0,
    start: float = 0.0,
) -> list[Message]:
    """Frames whose mean is the bitrate, of each group of pictures; a keyframe is so many times as large as another."""
    found = []
    gop = max(1, round(gop_s * fps))
    for number in range(round(seconds * fps)):
        at = number / fps
        rate = kbps(start + at) if callable(kbps) else kbps
        unit = rate * 125 / fps * gop / (gop - 1 + key_weight)
        is_key = number % gop == 0
        size = max(HEADER + 4, round(unit * key_weight if is_key else unit))
        found.append(Message(start + at, "video", round((start + at) * 1000), size, is_key))
    return found


def audio(seconds: float, *, start: float = 0.0, kbps: float = 128.0) -> list[Message]:
    size = round(kbps * 125 / AUDIO_FPS)
    return [
        Message(start + number / AUDIO_FPS, "audio", round((start + number / AUDIO_FPS) * 1000), size)
        for number in range(round(seconds * AUDIO_FPS))
    ]


def altered(messages: list[Message], **how: Callable[[Message], Any]) -> list[Message]:
    """With other fields, each made of the message: `altered(messages, at=lambda each: each.at / 2)`."""
    return [replace(each, **{name: make(each) for name, make in how.items()}) for each in messages]


def through(messages: list[Message], kbps: Callable[[float], float]) -> list[Message]:
    """After an uplink that carries so much at each time; the encoder waits for it, and leaves nothing out."""
    free = 0.0
    arrived = []
    for message in sorted(messages, key=lambda message: message.at):
        free = max(free, message.at) + message.size * 8 / 1000 / kbps(max(free, message.at))
        arrived.append(replace(message, at=free))
    return arrived


MINUTES = 180.0
CLAIMS = {"videodatarate": 800.0, "framerate": 30.0}


def scenes(seconds: float, rates: tuple[float, ...], *, seed: int = 1) -> Any:
    """The bitrate of an encoder of constant quality: another with each scene of 4 to 20 s, and some noise."""
    chance = random.Random(seed)
    cuts: list[tuple[float, float]] = []
    at = 0.0
    while at < seconds:
        cuts.append((at, chance.choice(rates)))
        at += chance.uniform(4, 20)

    def rate(at: float) -> float:
        now = next(rate for began, rate in reversed(cuts) if began <= at)
        return now * chance.uniform(0.7, 1.3)

    return rate


@pytest.mark.parametrize("fps", [24.0, 25.0, 30000 / 1001, 30.0, 50.0, 60.0])
def test_a_constant_bitrate_raises_nothing(fps: float) -> None:
    watched = Watched(metadata=CLAIMS | {"framerate": fps}, target_kbps=800)
    assert watched.play(video(60, fps=fps) + audio(60)).codes == set()


@pytest.mark.parametrize("gop_s", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("key_weight", [4.0, 30.0])
def test_keyframes_of_any_size_and_distance_raise_nothing(gop_s: float, key_weight: float) -> None:
    watched = Watched(target_kbps=800).play(video(90, gop_s=gop_s, key_weight=key_weight) + audio(90))
    assert watched.codes == set()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"videodatarate": 0, "framerate": 30.0},
        {"videodatarate": 2500, "framerate": 30.0},
        {"videodatarate": 6_000_000},
    ],
    ids=["nothing claimed", "no rate claimed", "a ceiling claimed", "nonsense claimed"],
)
def test_a_variable_bitrate_raises_nothing(metadata: dict[str, Any], seed: int) -> None:
    """As x264 with a constant rate factor: the spread of its bitrate is far over any limit."""
    rate = scenes(MINUTES, (150.0, 400.0, 900.0, 2400.0), seed=seed)
    assert Watched(metadata=metadata).play(video(MINUTES, kbps=rate) + audio(MINUTES)).codes == set()


SERIES = json.loads(Path(__file__).with_name("x264.json").read_text())
"""How FFmpeg made a video by each rate control, and its frames' sizes in bytes (keyframes have negative ones)."""


@pytest.mark.parametrize(
    ("name", "metadata", "limits"),
    [
        ("crf", {}, {}),
        ("crf", {"videodatarate": 0, "framerate": 30.0}, {}),
        ("crf", {"videodatarate": 2500.0, "framerate": 30.0}, {}),
        ("abr", {"videodatarate": 600.0, "framerate": 30.0}, {}),
        ("cbr", {"videodatarate": 600.0, "framerate": 30.0}, {}),
        ("cbr", {"framerate": 30.0}, {"target_kbps": 600}),
    ],
)
def test_x264_output_of_each_rate_control_raises_no_issue(
    name: str, metadata: dict[str, Any], limits: dict[str, Any]
) -> None:
    """Of still pictures, drawn ones and noise in turns; of `crf` the bitrate of 5 s is from 8 to 2,765 kbit/s."""
    frames = [
        Message(number / 30, "video", round(number * 1000 / 30), max(9, abs(size)), size < 0)
        for number, size in enumerate(SERIES[name]["sizes"])
    ]
    assert Watched(metadata=metadata, **limits).play(frames + audio(len(frames) / 30)).codes == set()


def test_an_average_bitrate_around_its_claim_raises_nothing() -> None:
    frames = video(MINUTES, kbps=lambda at: 1600.0 if at % 30 < 12 else 470.0)
    assert Watched(metadata=CLAIMS | {"videodatarate": 920.0}).play(frames + audio(MINUTES)).codes == set()


def test_a_jittery_network_raises_nothing() -> None:
    chance = random.Random(3)
    messages = altered(video(90) + audio(90), at=lambda each: each.at + chance.uniform(0, 0.15))
    for kind in ("video", "audio"):  # TCP keeps the order.
        last = 0.0
        for message in (each for each in messages if each.kind == kind):
            last = message.at = max(last, message.at)
    assert Watched(target_kbps=800).play(messages).codes == set()


def test_missing_track_raises_an_issue_only_if_it_is_expected() -> None:
    assert Watched(expect_video=False, target_kbps=800).play(audio(60)).codes == set()
    assert Watched(expect_audio=False, target_kbps=800).play(video(60)).codes == set()
    assert Watched().play(audio(60)).codes == {"no_video"}
    assert Watched().play(video(60)).codes == {"no_audio"}


def test_a_pause_is_no_silence() -> None:
    watched = Watched(target_kbps=800)
    watched.play(video(20) + audio(20), until=20)
    watched.stream.pause(20.0)
    watched.play([Message(50.0, "audio", 20_000, 200)], until=49)
    watched.stream.resume(50.0)
    watched.play(
        altered(video(60) + audio(60), at=lambda each: each.at + 50, timestamp=lambda each: each.timestamp + 20_000)
    )
    assert watched.codes == set()
    sample = session(watched.stream).meter.latest
    assert sample is not None
    assert sample.drift == pytest.approx(0, abs=50), "nor does it make anything late"


def test_a_few_frames_a_second_are_healthy() -> None:
    watched = Watched(metadata={"framerate": 1.0})
    assert watched.play(video(60, fps=1.0, kbps=100, gop_s=2.0) + audio(60)).codes == set()


def test_silence_opens_starving_at_once_and_nothing_else_after_it() -> None:
    """The encoder throws away what it could not send: timestamps go on with the clock."""
    watched = Watched(metadata=CLAIMS, target_kbps=800)
    watched.play([each for each in video(120) + audio(120) if not 30.0 <= each.at < 38.0])
    assert watched.codes == {"starving"}
    assert (watched.opened("starving"), watched.opened("starving", "bad"), watched.cleared("starving")) == (32, 35, 39)


def test_silence_followed_by_a_burst_of_its_media_opens_starving_only() -> None:
    watched = Watched(metadata=CLAIMS, target_kbps=800)
    watched.play(altered(video(120) + audio(120), at=lambda each: 38.0 if 30.0 <= each.at < 38.0 else each.at))
    assert watched.codes == {"starving"}


@pytest.mark.parametrize("limits", [{"target_kbps": 800}, {}], ids=["by the settings", "by the claim"])
def test_insufficient_uplink_opens_bitrate_low_until_it_recovers(limits: dict[str, Any]) -> None:
    """The encoder waits for it: media is late, the bitrate what the uplink carries."""
    messages = through(video(120) + audio(120), lambda at: 450.0 if 30 <= at < 70 else 4000.0)
    watched = Watched(metadata=CLAIMS, **limits).play(messages)
    assert watched.codes == {"bitrate_low"}
    assert watched.opened("bitrate_low") in range(32, 35)
    assert watched.cleared("bitrate_low") in range(90, 96)
    assert not watched.seconds[-1]


def test_uplink_slowed_by_keyframes_opens_bitrate_low_and_starving() -> None:
    """They are silences, as a message counts when it is whole; between them the bitrate is judged all the same."""
    frames = video(60, key_weight=60.0) + audio(60)
    messages = through(frames, lambda at: 250.0 if at >= 20 else 4000.0)
    watched = Watched(metadata=CLAIMS).play(messages)
    assert {"bitrate_low", "starving"} <= watched.codes
    assert watched.opened("bitrate_low", "bad") in range(23, 30)


def test_bitrate_low_is_judged_by_the_usual_rate_without_target_or_claim() -> None:
    messages = through(video(200) + audio(200), lambda at: 300.0 if 150 <= at < 190 else 4000.0)
    watched = Watched().play(messages)
    assert watched.codes == {"bitrate_low"}
    assert watched.opened("bitrate_low", "bad") in range(152, 155)


@pytest.mark.parametrize(("kbps", "code"), [(500.0, "bitrate_low"), (1300.0, "bitrate_high")])
def test_bitrate_below_or_above_its_target_opens_low_or_high(kbps: float, code: str) -> None:
    watched = Watched(target_kbps=800).play(video(60, kbps=lambda at: kbps if at >= 20 else 800.0) + audio(60))
    assert watched.codes == {code}
    assert watched.opened(code) in range(30, 35)


def test_bitrate_above_the_encoders_claim_opens_bitrate_high() -> None:
    watched = Watched(metadata=CLAIMS).play(video(330, kbps=1300.0) + audio(330))
    assert watched.codes == {"bitrate_high"}
    assert watched.opened("bitrate_high") in range(309, 314)


def test_fluctuating_uplink_opens_bitrate_unstable() -> None:
    """For seconds it carries too little, then all that waits: the mean is right, and both rates vary."""
    messages = through(video(150) + audio(150), lambda at: 690.0 if at % 24 < 12 else 4000.0)
    watched = Watched(metadata={"framerate": 30.0}, target_kbps=800).play(messages)
    assert watched.codes == {"bitrate_unstable"}
    assert watched.opened("bitrate_unstable") in range(65, 95)


def test_gop_length_outside_its_limits_opens_gop_long_or_gop_short() -> None:
    long = Watched().play(video(60, gop_s=8.0) + audio(60))
    assert (long.codes, long.opened("gop_long")) == ({"gop_long"}, 17)
    bad = Watched().play(video(60, gop_s=12.0) + audio(60))
    assert (bad.opened("no_keyframes"), bad.cleared("no_keyframes")) == (11, 13), "it looks as if none came any more"
    assert (bad.opened("gop_long", "warning"), bad.opened("gop_long", "bad")) == (21, 25)
    short = Watched().play(video(60, gop_s=0.25) + audio(60))
    assert (short.codes, short.opened("gop_short"), short.opened("gop_short", "bad")) == ({"gop_short"}, 10, None)


def test_long_gop_of_a_still_scene_opens_gop_long_once() -> None:
    """As x264 puts them: 250 pictures from one to the next at most, which are 16.7 s at 15 a second."""
    messages, start = [], 0.0
    for gop_s in (2, 5, 3, 4, 2, 250 / 15, 3, 2, 4, 3, 2, 3):
        messages += video(gop_s, fps=15.0, gop_s=gop_s, start=start)
        start += gop_s
    watched = Watched().play(messages + audio(start))
    assert watched.codes == {"gop_long"}
    found = [at for at, second in enumerate(watched.seconds) if second]
    assert found == list(range(found[0], found[-1] + 1)), "told once"


@pytest.mark.parametrize("begins_with_one", [True, False])
def test_stream_without_keyframes_opens_no_keyframes_until_one_comes(begins_with_one: bool) -> None:
    """Intra refresh: told once, and so that one knows what players see."""
    messages = video(40, key_weight=1.0) + audio(40)
    watched = Watched().play(
        altered(messages, is_keyframe=lambda each: begins_with_one and each.is_keyframe and each.at == 0)
    )
    assert watched.opened("no_keyframes", "warning") == 11
    assert [code for second in watched.seconds[10:] for code in second] == ["no_keyframes"] * len(watched.seconds[10:])
    issue = watched.issues[0]
    assert issue["title"].endswith("who joins now sees a broken picture.")
    assert "intra refresh" in issue["advice"]
    watched.play(video(20, start=41) + audio(20, start=41))
    assert watched.cleared("no_keyframes") == 42


def test_encoder_that_leaves_frames_out_opens_fps_low() -> None:
    few = video(30, fps=30.0) + video(60, fps=24.0, kbps=800.0, start=30.0) + audio(90)
    watched = Watched(metadata=CLAIMS, target_kbps=800).play(few)
    assert watched.codes == {"fps_low"}
    assert watched.opened("fps_low") in range(40, 46)
    issue = watched.issues[0]
    assert issue["title"].startswith("Frame rate 24.0 fps, 80\u00a0% of 30, for ")
    assert issue["advice"].startswith("The encoder is overloaded")


def test_encoder_slower_than_real_time_opens_drift_only() -> None:
    """All frames come, 1.25 times as late: nothing is left out, media falls behind."""
    slow = altered(video(90) + audio(90), at=lambda each: each.at * 1.25)
    watched = Watched(metadata={"framerate": 30.0}).play(slow)
    assert watched.codes == {"drift"}
    (issue,) = watched.issues
    assert issue["title"] == "22\u00a0s behind live and growing."


def test_unpaced_file_opens_faster_than_realtime_only() -> None:
    watched = Watched(metadata={"framerate": 30.0})
    watched.play(altered(video(200) + audio(200), at=lambda each: each.at / 2))
    assert watched.codes == {"faster_than_realtime"}
    assert watched.opened("faster_than_realtime") in range(40, 43)


def test_audio_gap_opens_no_audio_until_audio_returns() -> None:
    messages = video(120) + [each for each in audio(120) if not 30.0 <= each.at < 70.0]
    watched = Watched(target_kbps=800).play(messages)
    assert watched.codes == {"no_audio"}
    assert (watched.opened("no_audio"), watched.opened("no_audio", "bad"), watched.cleared("no_audio")) == (36, 61, 71)


def test_audio_video_offset_opens_av_skew() -> None:
    watched = Watched().play(video(60) + altered(audio(60), timestamp=lambda each: max(0, each.timestamp - 400)))
    assert watched.codes == {"av_skew"}
    assert watched.opened("av_skew", "warning") in range(20, 22)


def test_timestamp_jump_opens_ts_discontinuity_once_for_both_tracks() -> None:
    watched = Watched(metadata={"framerate": 30.0})
    watched.play(altered(video(120) + audio(120), timestamp=lambda each: each.timestamp + 20_000 * (each.at >= 30)))
    assert watched.codes == {"ts_discontinuity"}
    assert (watched.opened("ts_discontinuity"), watched.cleared("ts_discontinuity")) == (36, 101)
    once = Watched().play(altered(both(60), timestamp=lambda each: each.timestamp + 20_000 * (each.at >= 30)))
    assert once.issues[0]["title"] == "Timestamps jumped once in the last minute.", "though in both tracks"


def test_high_round_trip_time_opens_rtt_high() -> None:
    watched = Watched()
    watched.socket.figures = SocketFigures(0, 250.0)
    watched.play(video(60) + audio(60))
    assert (watched.codes, watched.opened("rtt_high")) == ({"rtt_high"}, 40)


def test_flapping_stream_is_reported_from_its_first_second() -> None:
    former = [START_WALL - ago for ago in (30.0, 60.0, 700.0)]
    watched = Watched(publishes=former)
    watched.play(video(20) + audio(20))
    assert (watched.opened("flapping", "warning"), watched.opened("flapping", "bad")) == (1, None)
    many = Watched(publishes=[START_WALL - 10.0 * ago for ago in range(1, 6)])
    many.play(video(620, fps=5.0, kbps=50, gop_s=2.0) + audio(620))
    assert many.opened("flapping", "bad") == 1
    assert many.cleared("flapping") == 580, "two are left: the latest before, and this one"


def test_player_that_loses_picture_opens_slow_players_as_warning_only() -> None:
    watched = Watched()
    players = [Player(watched.stream) for _ in range(4)]
    shown = []
    for second in range(60):
        watched.play(video(1, start=second) + audio(1, start=second), until=second + 1)
        for player in players[: 3 if second < 20 else 4]:
            player.read()
        shown.append(session(watched.stream).meter.figures.slow_players)
        if second == 19:
            assert watched.codes == {"slow_players"}
            assert watched.issues[0]["actual"] == "1 of 4 players (25\u00a0%)"
    assert shown[:4] == [0, 1, 1, 1], "it is shown once more than 1.5 s wait for it"
    assert watched.opened("slow_players") == 10, "with the first look at the stream's health"
    assert watched.opened("slow_players", "bad") is None
    assert watched.cleared("slow_players") in range(45, 52), "30 s after it lost the last frame"


def test_slow_players_stays_open_as_long_as_a_player_cannot_keep_up() -> None:
    """Frames are dropped for it in bursts, and its queue is short now and then."""
    watched = Watched()
    player = Player(watched.stream)
    second_bytes = (800 + 128) * 125
    for second in range(75):
        watched.play(video(1, start=second) + audio(1, start=second), until=second + 1)
        player.subscriber.take(round(0.6 * second_bytes))
    assert player.subscriber.dropped_frames > 100
    assert watched.codes == {"slow_players"}
    assert watched.opened("slow_players") in range(25)
    assert watched.cleared("slow_players") is None
    assert "frames dropped for slow players in the last minute." in watched.issues[0]["title"]
    assert watched.issues[0]["actual"] == "1 of 1 player (100\u00a0%)"


def at(seconds: float, change: Callable[[float], float]) -> Callable[[float], float]:
    """What an uplink carries: enough until then."""
    return lambda now: change(now) if now >= seconds else 4000.0


@pytest.mark.parametrize("begin", [30.0, 30.3, 30.7])
@pytest.mark.parametrize("limits", [{"target_kbps": 800}, {"metadata": CLAIMS}, {}], ids=["set", "claimed", "unknown"])
def test_uplink_collapse_is_reported_within_four_seconds(begin: float, limits: dict[str, Any]) -> None:
    """It carries 29 % of what is sent: by the bitrate where its target is known, else by the delay."""
    messages = through(video(60) + audio(60), at(begin, lambda now: 270.0))
    watched = Watched(**limits).play(messages, until=80)
    (code,) = watched.codes
    assert code == ("bitrate_low" if limits else "drift")
    assert (watched.opened(code) or 99) - begin <= 4
    assert watched.cleared(code) is None
    assert watched.issues[0]["title"].endswith("behind live and growing.")


def test_encoder_dropping_frames_for_a_slow_uplink_opens_bitrate_low() -> None:
    """As OBS does: nothing is late by more than a second, so that the bitrate alone shows it."""
    free, is_dropping, messages = 0.0, False, []
    for message in sorted(video(90) + audio(90), key=lambda message: message.at):
        queued_s = max(0.0, free - message.at)
        is_dropping = (is_dropping or queued_s > 0.8) and not (message.is_keyframe and queued_s < 0.3)
        if message.kind == "video" and is_dropping:
            continue
        free = max(free, message.at) + message.size * 8 / 1000 / (270.0 if message.at >= 30 else 4000.0)
        messages.append(replace(message, at=free))
    watched = Watched(metadata=CLAIMS).play(messages)
    assert watched.codes == {"bitrate_low"}
    assert watched.opened("bitrate_low") in range(32, 35)


@pytest.mark.parametrize("carries", [1000.0, 1500.0, 4000.0])
@pytest.mark.parametrize("begin", [30.0, 30.4, 30.8])
def test_a_pause_of_a_second_raises_nothing(begin: float, carries: float) -> None:
    """However slowly it catches up."""
    free, messages = 0.0, []
    for message in sorted(video(60) + audio(60), key=lambda message: message.at):
        free = max(free, message.at, begin + 1.0 if begin <= message.at < begin + 1.0 else 0.0)
        free += message.size * 8 / 1000 / carries
        messages.append(replace(message, at=free))
    for limits in ({"target_kbps": 800}, {"metadata": CLAIMS}, {}):
        assert Watched(**limits).play(messages).codes == set()


def test_drift_title_follows_the_growing_and_shrinking_delay() -> None:
    messages = through(both(150), at(30.0, lambda now: 464.0 if now < 90 else 1400.0))
    watched = Watched().play([each for each in messages if each.at < 90])
    (issue,) = watched.issues
    assert (issue["check"], issue["title"]) == ("drift", "29\u00a0s behind live and growing.")
    assert issue["actual"] == "29\u00a0s behind live", "and not how far it is from its mean"
    watched.play([each for each in messages if 90 <= each.at < 110])
    assert watched.issues[0]["title"].startswith("20\u00a0s behind live, catching up.")


def test_lasting_delay_keeps_the_drift_issue_open() -> None:
    """The encoder goes on at its pace with what had waited."""
    messages = altered(
        video(200) + audio(200), at=lambda each: max(each.at, min(30 + (each.at - 30) * 2, each.at + 20.5))
    )
    watched = Watched().play(messages)
    assert watched.codes == {"drift"}
    assert watched.cleared("drift") is None
    assert watched.issues[0]["title"] == "20\u00a0s behind live."


@pytest.mark.parametrize("step", [20_000, 3_000, -3_000])
def test_encoder_clock_step_causes_no_drift(step: int) -> None:
    watched = Watched()
    watched.play(altered(video(60) + audio(60), timestamp=lambda each: each.timestamp + step * (each.at >= 30)))
    sample = session(watched.stream).meter.latest
    assert sample is not None
    assert sample.drift == pytest.approx(0, abs=50)


def jumps(by: int) -> Callable[[Message], int]:
    """Each 8 s from the 30th on."""
    return lambda each: max(0, each.timestamp + by * int(max(0, (each.at - 22) // 8)))


def still(seconds: float, start: float) -> list[Message]:
    """Frames of nearly no bytes, and keyframes as large as before."""
    frames = video(seconds, start=start)
    return altered(frames, size=lambda each: each.size if each.is_keyframe else 37)


def both(seconds: float) -> list[Message]:
    return video(seconds) + audio(seconds)


SWITCHED_ON = {"enabled": True, "warning": None, "bad": None, "hold_s": None}
SET: dict[str, Any] = {"target_kbps": 800}
PICTURE = SET | {"health": {"frozen_picture": SWITCHED_ON}}
SOUND = SET | {"health": {"silent_audio": SWITCHED_ON}}


def cut(messages: list[Message], kind: str, begin: float, end: float) -> list[Message]:
    return [each for each in messages if each.kind != kind or not begin <= each.at < end]


CAUSES: dict[str, tuple[list[Message], dict[str, Any], str]] = {
    "an uplink that carries half": (through(both(90), at(30.0, lambda now: 460.0)), SET, "bitrate_low"),
    "half, of an unknown target": (through(both(90), at(30.0, lambda now: 460.0)), {}, "drift"),
    "an uplink that carries a fifth": (through(both(40), at(30.0, lambda now: 190.0)), SET, "bitrate_low"),
    "a fifth, of an unknown target": (through(both(40), at(30.0, lambda now: 190.0)), {}, "drift"),
    "three quarters": (through(both(90), at(30.0, lambda now: 700.0)), SET, "drift"),
    "an encoder that is too slow": (altered(both(90), at=lambda each: each.at * 1.25), {}, "drift"),
    "one that is far too slow": (altered(both(90), at=lambda each: each.at * 1.8), SET, "bitrate_low"),
    "one that leaves frames out": (
        [each for each in video(120) if each.at < 30 or each.is_keyframe or round(each.at * 30) % 4] + audio(120),
        SET,
        "fps_low",
    ),
    "one that leaves seconds out": (
        [each for each in both(120) if each.at < 30 or each.at % 9 >= 1],
        SET,
        "ts_discontinuity",
    ),
    "clocks set forwards": (altered(both(120), timestamp=jumps(3_000)), SET, "ts_discontinuity"),
    "clocks set far forwards": (altered(both(120), timestamp=jumps(20_000)), SET, "ts_discontinuity"),
    "clocks set backwards": (altered(both(120), timestamp=jumps(-3_000)), SET, "ts_discontinuity"),
    "the clock of one track": (
        altered(video(85), timestamp=lambda each: each.timestamp + 2_000 * (each.at >= 30)) + audio(85),
        {},
        "ts_discontinuity",
    ),
    "an unpaced file": (altered(both(200), at=lambda each: each.at / 2), SET, "faster_than_realtime"),
    "no video": (cut(both(120), "video", 30.0, 70.0), SET, "no_video"),
    "no audio": (cut(both(120), "audio", 30.0, 70.0), SET, "no_audio"),
    "keyframes 10 s apart": (video(90, gop_s=10.0) + audio(90), SET, "gop_long"),
    "a frozen picture": (video(30) + still(60, 30.0) + audio(90), PICTURE, "frozen_picture"),
    "silent sound": (
        video(90) + altered(audio(90), size=lambda each: each.size if each.at < 30 else 8),
        SOUND,
        "silent_audio",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_of_trouble_opens_exactly_one_issue(cause: str) -> None:
    messages, limits, code = CAUSES[cause]
    assert Watched(**limits).play(messages).codes == {code}


def test_full_uplink_opens_bitrate_low_without_rtt_high() -> None:
    watched = Watched(target_kbps=800)
    watched.socket.figures = SocketFigures(0, 450.0)
    watched.play(through(both(90), at(5.0, lambda now: 460.0)))
    assert watched.codes == {"bitrate_low"}


@pytest.mark.parametrize(("carries", "seen_at"), [(1100.0, 66.0), (1500.0, 66.0), (4000.0, 62.0)])
def test_catching_up_is_no_trouble_of_its_own(carries: float, seen_at: float) -> None:
    """More comes than the target, and faster than time passes."""
    messages = through(both(220), at(30.0, lambda now: 500.0 if now < 60 else carries))
    watched = Watched(target_kbps=800).play([each for each in messages if each.at < seen_at])
    assert "catching up" in watched.issues[0]["title"]
    assert watched.play([each for each in messages if each.at >= seen_at]).codes == {"bitrate_low"}
    assert not watched.seconds[-1]


def test_the_table_of_causes_names_checks() -> None:
    codes = {check.code for check in CHECKS}
    assert codes >= {code for effect, causes in STANDS_STILL.items() for code in (effect, *causes)}
    assert not any(effect in causes for effect, causes in STANDS_STILL.items())


def test_still_pictures_and_silence_are_no_trouble_unless_a_stream_says_so() -> None:
    quiet = video(30) + still(60, 30.0) + altered(audio(90), size=lambda each: each.size if each.at < 30 else 8)
    assert Watched(metadata=CLAIMS).play(quiet).codes == set()
    rules = {"frozen_picture": SWITCHED_ON, "silent_audio": SWITCHED_ON}
    watched = Watched(metadata=CLAIMS, health=rules).play(quiet)
    assert (watched.opened("frozen_picture"), watched.opened("silent_audio")) == (41, 41)
    assert [issue["title"] for issue in watched.issues] == [
        "Picture frozen for 59\u00a0s (limit 10\u00a0s).",
        "Audio silent for 59\u00a0s (limit 10\u00a0s).",
    ]
    talking = Watched(metadata=CLAIMS, health=rules)
    assert talking.play(video(90, kbps=60.0) + audio(90, kbps=24.0)).codes == set(), "little goes on, but something"


def off(messages: list[Message], begin: float) -> list[Message]:
    """From then on sound runs away from the pictures, and keyframes are 12 s apart."""
    return altered(
        messages,
        timestamp=lambda each: each.timestamp - round(50 * max(0, each.at - begin)) * (each.kind == "audio"),
        is_keyframe=lambda each: each.is_keyframe and (each.at < begin or each.timestamp // 2000 % 6 == 0),
    )


def test_low_bitrate_without_delay_hides_no_other_issue() -> None:
    """As of a still picture for which a target is set: nothing else comes of it."""
    watched = Watched(target_kbps=800).play(off(video(120, kbps=300.0) + audio(120), 60.0))
    assert watched.codes == {"bitrate_low", "av_skew", "gop_long"}


def test_lasting_delay_hides_no_issue_that_begins_later() -> None:
    late = altered(both(200), at=lambda each: max(each.at, min(30 + (each.at - 30) * 2.5, each.at + 20)))
    watched = Watched(target_kbps=800).play(off(late, 150.0))
    assert watched.codes == {"bitrate_low", "av_skew", "gop_long"}
    assert watched.cleared("bitrate_low") is None
    assert (watched.opened("av_skew") or 0) > 150


def test_slow_encoder_clock_keeps_no_bitrate_issue_open() -> None:
    """Off by a thousandth: after two hours it looks 8 s late. Then the bitrate is low for a quarter of a minute."""
    frames = altered(
        video(7600, fps=2.0),
        timestamp=lambda each: round(each.timestamp * 0.999),
        size=lambda each: each.size if not 7000 <= each.at < 7015 else each.size // 3,
    )
    watched = Watched(expect_audio=False, target_kbps=800).play(frames)
    assert watched.codes == {"bitrate_low"}
    assert watched.opened("bitrate_low") in range(7010, 7015)
    assert watched.cleared("bitrate_low") in range(7035, 7045)


@pytest.mark.parametrize("limits", [{"target_kbps": 800}, {"metadata": CLAIMS}, {}], ids=["set", "claimed", "unknown"])
def test_lasting_delay_after_a_silence_keeps_no_issue_open(limits: dict[str, Any]) -> None:
    """The encoder goes on where it stopped; a minute later its bitrate is low for a while."""
    messages = altered(
        both(180),
        at=lambda each: each.at + 20 * (each.at >= 40),
        size=lambda each: each.size // 3 if each.kind == "video" and 100 <= each.at < 114 else each.size,
    )
    watched = Watched(**limits).play(messages)
    assert watched.codes == {"starving"} | ({"bitrate_low"} if "target_kbps" in limits else set())
    assert not watched.seconds[-1]


def test_a_silence_after_which_media_come_late_is_one_issue() -> None:
    """What comes in the first seconds after it is little by the mean of three, and late: it was silence."""
    free, messages = 0.0, []
    for message in sorted(both(120), key=lambda message: message.at):
        free = max(free, message.at, 38.4 if 30.4 <= message.at < 38.4 else 0.0)
        free += message.size * 8 / 1000 / (950.0 if message.at >= 30.4 else 4000.0)
        messages.append(replace(message, at=free))
    assert Watched(target_kbps=800).play(messages).codes == {"starving"}


def test_bursts_within_the_streams_own_starving_limit_raise_no_issue() -> None:
    """As of a relay of segments, of 4 s each."""
    heaps = altered(both(60), at=lambda each: (each.at // 4 + 1) * 4 + each.at % 4 / 50)
    rule = {"starving": {"enabled": True, "warning": 8.0, "bad": 15.0, "hold_s": None}}
    assert Watched(target_kbps=800, health=rule).play(heaps).codes == set()


def test_late_media_after_a_pause_raise_no_issue_and_add_no_drift() -> None:
    watched = Watched(target_kbps=800)
    watched.play(both(20), until=20)
    watched.stream.pause(20.0)
    watched.play([], until=79)
    watched.stream.resume(79.5)
    watched.play(
        altered(both(60), at=lambda each: each.at + 80.9, timestamp=lambda each: each.timestamp + 20_000), until=140
    )
    assert watched.codes == set()
    sample = session(watched.stream).meter.latest
    assert sample is not None
    assert sample.drift == pytest.approx(0, abs=50)


def test_frozen_picture_check_starts_over_when_switched_on_again() -> None:
    messages = video(30) + still(30, 30.0) + video(30, start=60.0) + audio(90)
    watched = Watched(health={"frozen_picture": SWITCHED_ON}).play([each for each in messages if each.at < 60])
    session(watched.stream).evaluation.set_rules({})
    watched.play([each for each in messages if 60 <= each.at < 80])
    session(watched.stream).evaluation.set_rules(PICTURE["health"])
    watched.seconds.clear()
    assert watched.play([each for each in messages if each.at >= 80]).codes == set()
