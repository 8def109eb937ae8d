"""When issues open and clear, and what they say."""

from collections.abc import Callable
from typing import Any

import pytest

from ingest.contracts import Issue
from ingest.live.health import Check, Figures, HealthEngine, span
from tests.ingest.live.payloads import AAC_HEADER, START_WALL, inter, keyframe, make_stream, publisher, sound

S = "\u00a0s"
"""The unit, joined to its figure."""


def figures(
    *,
    idle_s: float = 0.0,
    no_audio_s: float | None = 0.0,
    no_video_s: float | None = 0.0,
    keyframe_intervals: tuple[float, ...] = (2.0, 2.0, 2.0, 2.0),
    open_gop_s: float | None = 1.0,
) -> Figures:
    return Figures(idle_s, no_audio_s, no_video_s, keyframe_intervals, open_gop_s)


def judged(found: Figures, *, now: float = 100.0) -> list[tuple[str, str]]:
    return [(issue["check"], issue["level"]) for issue in HealthEngine(0.0).update(found, now, START_WALL + now)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (figures(), []),
        (figures(idle_s=2.0), []),
        (figures(idle_s=2.1), [("starving", "warning")]),
        (figures(idle_s=5.0), [("starving", "warning")]),
        (figures(idle_s=5.1), [("starving", "bad")]),
        (figures(no_audio_s=5.0), []),
        (figures(no_audio_s=6.0), [("no_audio", "warning")]),
        (figures(no_audio_s=31.0), [("no_audio", "bad")]),
        (figures(no_audio_s=None), []),
        (figures(no_video_s=6.0, keyframe_intervals=(), open_gop_s=None), [("no_video", "warning")]),
        (figures(no_video_s=31.0), [("no_video", "bad")]),
        (figures(no_video_s=None, keyframe_intervals=(), open_gop_s=None), []),
        (figures(keyframe_intervals=(4.0, 4.0)), []),
        (figures(keyframe_intervals=(8.0,)), []),
        (figures(keyframe_intervals=(2.0, 8.0)), []),
        (figures(keyframe_intervals=(2.0, 8.0, 8.0)), [("gop_long", "warning")]),
        (figures(keyframe_intervals=(12.0, 12.0)), [("gop_long", "bad")]),
        (figures(keyframe_intervals=(), open_gop_s=8.0), []),
        (figures(keyframe_intervals=(), open_gop_s=8.1), [("gop_long", "warning")]),
        (figures(keyframe_intervals=(), open_gop_s=20.1), [("gop_long", "bad")]),
        (figures(idle_s=3.0, no_audio_s=40.0), [("no_audio", "bad"), ("starving", "warning")]),
    ],
)
def test_limits(found: Figures, expected: list[tuple[str, str]]) -> None:
    assert judged(found) == expected


def test_nothing_is_judged_while_it_warms_up() -> None:
    assert judged(figures(idle_s=9.9), now=9.9) == []
    assert judged(figures(idle_s=10.0), now=10.0) == [("starving", "bad")]


@pytest.mark.parametrize(
    ("found", "sentence", "actual", "expected"),
    [
        (figures(idle_s=14.6), f"Nothing has arrived for 14{S}, 5 at most.", f"14{S}", f"5{S} at most"),
        (figures(idle_s=3.0), f"Nothing has arrived for 3{S}, 2 at most.", f"3{S}", f"2{S} at most"),
        (
            figures(keyframe_intervals=(8.0, 8.0)),
            f"A keyframe every 8.0{S}, 4 at most.",
            f"8.0{S}",
            f"4{S} at most",
        ),
        (
            figures(keyframe_intervals=(), open_gop_s=75.0),
            f"No keyframe has arrived for 1\u00a0min 15{S}, 10 at most.",
            f"1\u00a0min 15{S}",
            f"10{S} at most",
        ),
        (figures(no_audio_s=7.0), f"No audio has arrived for 7{S}, 5 at most.", f"7{S}", f"5{S} at most"),
        (figures(no_video_s=7.0), f"No video has arrived for 7{S}, 5 at most.", f"7{S}", f"5{S} at most"),
    ],
)
def test_words(found: Figures, sentence: str, actual: str, expected: str) -> None:
    (issue,) = HealthEngine(0.0).update(found, 100.0, START_WALL)
    assert (issue["title"], issue["actual"], issue["expected"]) == (sentence, actual, expected)
    assert issue["advice"].endswith(".")
    assert issue["since"] == START_WALL


def test_lengths_of_time() -> None:
    assert [span(seconds) for seconds in (0.9, 59.9, 112.0, 7500.0)] == [
        f"0{S}", f"59{S}", f"1\u00a0min 52{S}", "2\u00a0h 5\u00a0min"
    ]  # fmt: skip


# --- Hold and hysteresis, by a check with a hold of 10 s ---


def held(measure: Callable[[Figures], float | None]) -> Check:
    return Check(
        code="held",
        warning=1,
        bad=2,
        hold_s=10,
        measure=measure,
        title=lambda figures, limit: f"Over {limit:g}.",
        actual=lambda figures: "much",
        unit="s",
        advice="Do something.",
    )


def levels(values: list[float]) -> list[str]:
    """The level after each second in which the value was measured, from the end of the warm-up on."""
    engine = HealthEngine(0.0, [held(lambda found: found.idle_s)])
    result: list[str] = []
    for second, value in enumerate(values):
        issues: list[Issue] = engine.update(figures(idle_s=value), 10.0 + second, START_WALL + second)
        result.append(issues[0]["level"] if issues else "good")
    return result


def test_an_issue_opens_after_its_hold_and_clears_after_twice_as_long() -> None:
    found = levels([1.5] * 15 + [0.5] * 30)
    assert found.index("warning") == 10
    assert found[10:35] == ["warning"] * 25
    assert found[35:] == ["good"] * 10


def test_a_short_trouble_opens_nothing_and_a_short_relief_clears_nothing() -> None:
    assert set(levels(([1.5] * 9 + [0.5]) * 5)) == {"good"}
    assert levels([1.5] * 11 + ([0.5] * 19 + [1.5]) * 3)[10:] == ["warning"] * 61


def test_levels_have_their_own_holds() -> None:
    found = levels([1.5] * 12 + [3.0] * 12 + [1.5] * 30)
    assert found.index("warning") == 10
    assert found.index("bad") == 22
    # The bad level clears 20 s after the value fell below it, and the warning stays.
    assert found.index("warning", 22) == 44
    assert found[-1] == "warning"


def test_since_is_when_the_trouble_began() -> None:
    engine = HealthEngine(0.0, [held(lambda found: found.idle_s)])
    for second in range(25):
        issues = engine.update(figures(idle_s=1.5 if second < 12 else 3.0), 10.0 + second, START_WALL + second)
    assert issues[0]["level"] == "bad"
    assert issues[0]["since"] == START_WALL


def test_a_long_group_of_pictures_clears_after_four_good_ones() -> None:
    engine = HealthEngine(0.0)
    now = 100.0
    assert engine.update(figures(keyframe_intervals=(8.0, 8.0)), now, now)
    for intervals in ((8.0, 8.0, 2.0), (8.0, 8.0, 2.0, 2.0), (8.0, 8.0, 2.0, 2.0, 2.0)):
        assert engine.update(figures(keyframe_intervals=intervals), now, now)
    assert engine.update(figures(keyframe_intervals=(8.0, 2.0, 2.0, 2.0, 2.0)), now, now) == []


# --- Through a stream ---


def test_a_stream_that_stops_sending_and_goes_on() -> None:
    stream = make_stream()
    stream.start(publisher(), 0.0)
    stream.audio(0, AAC_HEADER, 0.0)
    healths = []
    for second in range(40):
        if not 20 <= second < 30:
            stream.video(second * 1000, keyframe(second), float(second))
            stream.audio(second * 1000, sound(second), float(second))
        (sample,) = stream.tick(second + 0.5, START_WALL + second)
        healths.append(sample.health)
    # The last message came at 19 s: over 2 s at 21.5 s, over 5 s at 24.5 s.
    assert healths[:21] == ["good"] * 21
    assert healths[21:24] == ["warning"] * 3
    assert healths[24:30] == ["bad"] * 6
    assert healths[30:] == ["good"] * 10


def test_sound_without_video_where_both_are_expected() -> None:
    assert [code for code, _ in checks_after(12, video=False)] == ["no_video"]
    assert checks_after(12, video=False, expect_video=False) == []
    assert [code for code, _ in checks_after(12, audio=False)] == ["no_audio"]
    assert checks_after(12, audio=False, expect_audio=False) == []
    assert checks_after(12) == []


def checks_after(seconds: int, *, video: bool = True, audio: bool = True, **limits: Any) -> list[tuple[str, str]]:
    stream = make_stream()
    stream.start(publisher(**limits), 0.0)
    for step in range(seconds * 4):
        now = step / 4
        if video:
            stream.video(step * 250, keyframe(step) if step % 8 == 0 else inter(step), now)
        if audio:
            stream.audio(step * 250, sound(step), now)
        if step % 4 == 0:
            stream.tick(now, START_WALL + now)
    assert stream.health is not None
    return [(issue["check"], issue["level"]) for issue in stream.health.issues]


def test_silence_of_everything_is_one_issue() -> None:
    stream = make_stream()
    stream.start(publisher(), 0.0)
    stream.video(0, keyframe(0), 0.0)
    stream.audio(0, sound(0), 0.0)
    stream.video(2000, keyframe(0), 2.0)
    stream.audio(2000, sound(0), 2.0)
    stream.tick(60.0, START_WALL)
    assert stream.health is not None
    assert [issue["check"] for issue in stream.health.issues] == ["starving"]
