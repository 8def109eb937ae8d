"""Each row of the tables of a stream's and a node's checks: its limits, its words, its place in docs/health.md."""

import re
from pathlib import Path
from typing import Any

import pytest

from ingest.contracts import Issue, NodeFigures, ProcessFigures
from ingest.contracts.figures import CHECK_NAMES, STREAM_CHECKS
from ingest.live.health import CHECKS, NODE_CHECKS, STANDS_STILL, Check, Figures, HealthEngine, Target
from ingest.live.health.engine import Level, Passed, span
from ingest.live.health.measures import choose_target
from tests import snapshots
from tests.pure.live.payloads import START_WALL

N = "\u00a0"
SET = Target(6000, "expected")
CLAIMED = Target(6000, "claimed")
USUAL = Target(6000, "usual")


def held(figures: Figures) -> list[Issue]:
    """The issues after an hour of these figures."""
    engine = HealthEngine(0.0, CHECKS, causes=STANDS_STILL)
    engine.update(figures, 100.0, START_WALL)
    return engine.update(figures, 3700.0, START_WALL + 112)


def late(**fields: Any) -> Figures:
    """Frames come too few a second, and none is left out."""
    return Figures(fps=10.0, fps_media=30.0, nominal_fps=30.0, behind_s=3.0, **fields)


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        (Figures(), []),
        (Figures(idle_s=2.0), []),
        (Figures(idle_s=2.1), ["starving warning"]),
        (Figures(idle_s=5.0), ["starving warning"]),
        (Figures(idle_s=5.1), ["starving bad"]),
        (Figures(video_kbps=4200.0, target=SET), []),
        (Figures(video_kbps=4199.0, target=SET), ["bitrate_low warning"]),
        (Figures(video_kbps=2400.0, target=SET), ["bitrate_low warning"]),
        (Figures(video_kbps=2399.0, target=SET), ["bitrate_low bad"]),
        (Figures(video_kbps=2399.0, target=SET, without_video_s=3.0), []),
        (Figures(video_kbps=2399.0, target=CLAIMED), []),
        (Figures(video_kbps=2399.0, target=CLAIMED, fps=29.0, nominal_fps=30.0), []),
        (late(video_kbps=2399.0, target=CLAIMED), ["bitrate_low bad"]),
        (late(video_kbps=2399.0, target=USUAL), ["bitrate_low bad"]),
        (Figures(video_kbps=6000.0, recent_kbps=2399.0, target=SET), []),
        (Figures(video_kbps=6000.0, recent_kbps=2399.0, target=SET, slowing=3), ["bitrate_low bad"]),
        (Figures(video_kbps=6000.0, recent_kbps=2399.0, target=SET, choking=2), ["bitrate_low bad"]),
        (Figures(video_kbps=7800.0, target=SET), []),
        (Figures(video_kbps=7801.0, target=SET), ["bitrate_high warning"]),
        (Figures(video_kbps=90_000.0, target=SET), ["bitrate_high warning"]),
        (Figures(video_kbps=90_000.0, target=SET, pace=1.06, behind_s=9.0), []),
        (Figures(video_kbps=90_000.0, long_kbps=7000.0, target=CLAIMED), []),
        (Figures(video_kbps=7000.0, long_kbps=9000.0, target=CLAIMED), ["bitrate_high warning"]),
        (Figures(video_kbps=90_000.0, long_kbps=90_000.0, target=USUAL), []),
        (Figures(sent_kbps=1050.0, max_kbps=1000), []),
        (Figures(sent_kbps=1051.0, max_kbps=1000), ["bitrate_high bad"]),
        (Figures(sent_kbps=90_000.0), []),
        (Figures(unevenness=25.0), []),
        (Figures(unevenness=25.1), ["bitrate_unstable warning"]),
        (Figures(unevenness=50.1), ["bitrate_unstable bad"]),
        (Figures(keyframe_intervals=(4.0, 4.0), open_gop_s=1.0), []),
        (Figures(keyframe_intervals=(8.0,), open_gop_s=1.0), []),
        (Figures(keyframe_intervals=(2.0, 8.0), open_gop_s=1.0), []),
        (Figures(keyframe_intervals=(2.0, 8.0, 8.0), open_gop_s=1.0), ["gop_long warning"]),
        (Figures(keyframe_intervals=(12.0, 12.0), open_gop_s=1.0), ["gop_long bad"]),
        (Figures(keyframe_intervals=(2.0,), open_gop_s=8.0), []),
        (Figures(keyframe_intervals=(2.0,), open_gop_s=8.1), ["gop_long warning"]),
        (Figures(keyframe_intervals=(2.0,), open_gop_s=20.1), ["gop_long bad"]),
        (Figures(open_gop_s=9.9), []),
        (Figures(open_gop_s=10.0), ["no_keyframes warning"]),
        (Figures(open_gop_s=3600.0), ["no_keyframes warning"]),
        (Figures(keyframe_intervals=(0.2,) * 4, open_gop_s=0.1), []),
        (Figures(keyframe_intervals=(0.2,) * 4 + (0.5,), open_gop_s=0.1), []),
        (Figures(keyframe_intervals=(0.49,) * 5, open_gop_s=0.1), ["gop_short warning"]),
        (Figures(fps=27.0, nominal_fps=30.0), []),
        (Figures(fps=26.9, nominal_fps=30.0), ["fps_low warning"]),
        (Figures(fps=18.0, nominal_fps=30.0), ["fps_low warning"]),
        (Figures(fps=17.9, nominal_fps=30.0), ["fps_low bad"]),
        (Figures(fps=0.0, nominal_fps=30.0, without_video_s=3.0), []),
        (Figures(fps=10.0), []),
        (late(), ["fps_low bad"]),
        (Figures(drift_dev_ms=500.0), []),
        (Figures(drift_dev_ms=-5000.0), []),
        (Figures(drift_dev_ms=501.0), ["drift warning"]),
        (Figures(drift_dev_ms=1001.0), ["drift bad"]),
        (Figures(pace=1.05), []),
        (Figures(pace=1.06), ["faster_than_realtime warning"]),
        (Figures(pace=60.0), ["faster_than_realtime warning"]),
        (Figures(pace=1.3, behind_s=0.6), []),
        (Figures(without_audio_s=5.0), []),
        (Figures(without_audio_s=5.1), ["no_audio warning"]),
        (Figures(without_audio_s=30.1), ["no_audio bad"]),
        (Figures(without_audio_s=30.1, expects_audio=False), []),
        (Figures(without_video_s=5.1), ["no_video warning"]),
        (Figures(without_video_s=30.1), ["no_video bad"]),
        (Figures(without_video_s=30.1, expects_video=False), []),
        (Figures(still_s=10.0, silent_s=10.0), []),
        (Figures(still_s=10.1), ["frozen_picture warning"]),
        (Figures(still_s=60.1), ["frozen_picture bad"]),
        (Figures(still_s=60.1, without_video_s=3.0), []),
        (Figures(silent_s=10.1), ["silent_audio warning"]),
        (Figures(silent_s=60.1), ["silent_audio bad"]),
        (Figures(silent_s=60.1, without_audio_s=3.0), []),
        (Figures(av_skew_ms=300.0), []),
        (Figures(av_skew_ms=301.0), ["av_skew warning"]),
        (Figures(av_skew_ms=-1001.0), ["av_skew bad"]),
        (Figures(av_skew_ms=-1001.0, nominal_fps=1.0), []),
        (Figures(av_skew_ms=-4000.0, without_video_s=3.0), []),
        (Figures(discontinuities=1), ["ts_discontinuity warning"]),
        (Figures(discontinuities=9), ["ts_discontinuity warning"]),
        (Figures(discontinuities=10), ["ts_discontinuity bad"]),
        (Figures(rtt_ms=200.0), []),
        (Figures(rtt_ms=201.0), ["rtt_high warning"]),
        (Figures(publishes=2), []),
        (Figures(publishes=3), ["flapping warning"]),
        (Figures(publishes=6), ["flapping bad"]),
        (Figures(recording_failed_s=0.0), ["recording_failed warning"]),
        (Figures(recording_failed_s=30.0), ["recording_failed bad"]),
        (Figures(players=1, slow_players=1), []),
        (Figures(players=1000, slow_players=1, losing_players=1), ["slow_players warning"]),
        (Figures(players=1, slow_players=1, losing_players=1), ["slow_players warning"]),
    ],
)
def test_stream_check_opens_beyond_its_warning_or_bad_limit(figures: Figures, expected: list[str]) -> None:
    assert [f"{issue['check']} {issue['level']}" for issue in held(figures)] == expected


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        (
            Figures(idle_s=14.6),
            "Nothing received for 14~s (limit 5~s). | nothing for 14~s | at most 5~s | 14.6 | 5",
        ),
        (
            Figures(video_kbps=2310.0, target=SET),
            "Bitrate 2,310~kbit/s, 38~% of the 6,000 expected, for 1~min 52~s. | "
            "2,310~kbit/s (38~%) | at least 40~% of 6,000~kbit/s | 38.5 | 40",
        ),
        (
            Figures(long_kbps=9000.0, video_kbps=1.0, target=CLAIMED),
            "Bitrate 9,000~kbit/s, 150~% of the 6,000 claimed, for 1~min 52~s. | "
            "9,000~kbit/s (150~%) | at most 130~% of 6,000~kbit/s | 150 | 130",
        ),
        (
            Figures(sent_kbps=2000.0, max_kbps=1000),
            "The encoder sends 2,000~kbit/s (its key's limit 1,000~kbit/s) for 1~min 52~s. | "
            "2,000~kbit/s (200~%) | at most 1,000~kbit/s | 200 | 105",
        ),
        (
            Figures(keyframe_intervals=(8.0, 8.0), open_gop_s=1.0),
            "Keyframe interval 8.0~s (limit 4~s). | 8.0~s | at most 4~s | 8 | 4",
        ),
        (
            Figures(open_gop_s=75.0),
            "No keyframe received for 1~min 15~s: who joins now sees a broken picture. | none for 1~min 15~s | "
            "one in 10~s | 75 | 10",
        ),
        (
            Figures(keyframe_intervals=(2.0,), open_gop_s=75.0),
            "No keyframe received for 1~min 15~s (limit 10~s). | 1~min 15~s | at most 10~s | 37.5 | 10",
        ),
        (
            Figures(fps=26.1, nominal_fps=30.0),
            "Frame rate 26.1 fps, 87~% of 30, for 1~min 52~s. | 26.1 fps (87~%) | at least 90~% of 30 fps | 87 | 90",
        ),
        (
            Figures(drift_dev_ms=21_146.0, behind_s=62.3, later_s=2.0),
            "1~min 2~s behind live and growing. | 1~min 2~s behind live | "
            "steady, within 1,000~ms of its mean of a minute | 21146 | 1000",
        ),
        (
            Figures(drift_dev_ms=800.0, behind_s=3.21, later_s=0.05),
            "3.2~s behind live. | 3.2~s behind live | steady, within 500~ms of its mean of a minute | 800 | 500",
        ),
        (
            Figures(pace=1.3),
            "Sending 1.30x faster than real time for 1~min 52~s (limit 1.05x). | 1.30x real time | at most 1.05x | "
            "1.3 | 1.05",
        ),
        (Figures(without_audio_s=7.0), "No audio received for 7~s (limit 5~s). | none for 7~s | at most 5~s | 7 | 5"),
        (
            Figures(av_skew_ms=-1200.0),
            "Audio is ahead of video by 1,200~ms (limit 1,000~ms). | 1,200~ms | at most 1,000~ms | 1200 | 1000",
        ),
        (
            Figures(discontinuities=1),
            "Timestamps jumped once in the last minute. | once in the last minute | never | 1 | 1",
        ),
        (
            Figures(rtt_ms=250.0),
            "RTT to the encoder 250~ms (limit 200~ms) for 1~min 52~s. | 250~ms | at most 200~ms | 250 | 200",
        ),
        (
            Figures(publishes=4),
            "Reconnected 4 times in 10~min. | 4 times in 10~min | fewer than 3 times | 4 | 3",
        ),
        (
            Figures(recording_failure="No space left on device.", recording_failed_s=14.0),
            "The stream is not recorded. No space left on device. | not recorded for 14~s | recorded | 14 | 0",
        ),
        (
            Figures(players=1000, slow_players=2, losing_players=1, dropped_frames=1625),
            "1 of 1000 players can't keep up and loses picture. 1,625 frames dropped for slow players in the "
            "last minute. | 1 of 1000 players (0.1~%) | none | 0.1 | 0",
        ),
    ],
)
def test_stream_issue_has_title_actual_expected_value_and_limit(figures: Figures, said: str) -> None:
    (issue,) = held(figures)
    *words, value, limit = said.replace("~", N).split(" | ")
    assert [issue["title"], issue["actual"], issue["expected"]] == words
    assert [issue["value"], issue["limit"]] == pytest.approx([float(value), float(limit)])
    assert issue["advice"].endswith(".")
    assert issue["since"] == START_WALL


@pytest.mark.parametrize(
    ("figures", "sentence"),
    [
        (Figures(idle_s=5.2), "Nothing received for 5~s."),
        (Figures(without_audio_s=5.9), "No audio received for 5~s."),
        (Figures(without_video_s=30.4), "No video received for 30~s."),
        (Figures(keyframe_intervals=(4.04, 4.04), open_gop_s=1.0), "Keyframe interval 4.0~s."),
        (Figures(keyframe_intervals=(0.496,) * 5, open_gop_s=0.1), "Keyframe interval 0.50~s."),
        (Figures(av_skew_ms=300.4), "Video is ahead of audio by 300~ms."),
    ],
)
def test_issue_title_omits_a_limit_that_rounds_to_the_shown_value(figures: Figures, sentence: str) -> None:
    (issue,) = held(figures)
    assert issue["title"] == sentence.replace("~", N)
    assert issue["expected"].startswith(("at most", "at least"))


def test_every_check_has_words_at_each_of_its_levels() -> None:
    figures = Figures()
    for check in CHECKS:
        for level in check.levels:
            passed = Passed(level, 1.0, check.limit(level), 60.0)
            sentence = check.title(figures, passed)
            assert sentence[0].isupper() or sentence[0].isdigit()
            assert sentence.endswith(".")
            assert check.advice_text(figures, passed).endswith(".")
            assert check.expected_text(figures, passed)
            assert check.actual(figures, passed)
    assert [check.code for check in CHECKS] == list(STREAM_CHECKS)


def test_span_formats_seconds_minutes_and_hours() -> None:
    assert [span(seconds) for seconds in (0.9, 59.9, 112.0, 7500.0)] == [
        f"0{N}s", f"59{N}s", f"1{N}min 52{N}s", f"2{N}h 5{N}min"
    ]  # fmt: skip


def test_a_long_group_of_pictures_clears_after_four_good_ones() -> None:
    engine = HealthEngine(0.0, CHECKS)

    def codes(*intervals: float) -> list[str]:
        found = engine.update(Figures(keyframe_intervals=intervals, open_gop_s=0.1), 100.0, START_WALL)
        return [issue["check"] for issue in found]

    for intervals in ((8.0, 8.0), (8.0, 8.0, 2.0), (8.0, 8.0, 2.0, 2.0), (8.0, 8.0, 2.0, 2.0, 2.0)):
        assert codes(*intervals) == ["gop_long"]
    assert codes(8.0, 2.0, 2.0, 2.0, 2.0) == []


def test_short_groups_of_pictures_clear_when_most_of_ten_are_longer() -> None:
    engine = HealthEngine(0.0, CHECKS)
    intervals = [0.2] * 5
    found = []
    for _ in range(10):
        figures = Figures(keyframe_intervals=tuple(intervals[-10:]), open_gop_s=0.1)
        found.append(len(engine.update(figures, 100.0, START_WALL)))
        intervals.append(2.0)
    assert found == [1] * 5 + [0] * 5


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ((6000, 2500.0, 100.0), Target(6000, "expected")),
        ((None, 2500.0, None), Target(2500.0, "claimed")),
        ((None, 2500.0, 300.0), Target(2500.0, "claimed")),
        ((None, 2500.0, 240.0), Target(240.0, "usual")),
        ((None, 200.0, 2400.0), Target(2400.0, "usual")),
        ((None, 0.0, 2400.0), Target(2400.0, "usual")),
        ((None, None, None), None),
    ],
)
def test_bitrate_target_is_chosen_from_expected_claimed_or_usual_rate(
    figures: tuple[float | None, float | None, float | None], expected: Target | None
) -> None:
    assert choose_target(*figures) == expected


AT_ONCE, WARM, HELD = 1.0, 100.0, 110.0
"""When an issue opens: while all else warms up, after that, and after the hold (s)."""


def figures(cpu: float | None = 20.0, disk: float | None = 60.0, hangs_s: float = 0.0, dropped: int = 0) -> NodeFigures:
    of_disk: dict[str, Any] = {"disk_free_percent": disk, "disk_hangs_s": hangs_s}
    return snapshots.figures(cpu_percent=cpu, caches_dropped=dropped, **of_disk)


def with_files(open_files: int | None, most_files: int | None) -> NodeFigures:
    process: ProcessFigures = {
        "started_at": START_WALL,
        "cpu_s": 1.0,
        "resident_bytes": None,
        "open_files": open_files,
        "most_files": most_files,
    }
    return {**figures(), "process": process}


@pytest.mark.parametrize(
    ("found", "at", "expected"),
    [
        (figures(), None, []),
        (figures(cpu=None, disk=None), None, []),
        (with_files(None, 1024), None, []),
        (with_files(5000, None), None, []),
        (with_files(800, 1000), None, []),
        (with_files(801, 1000), AT_ONCE, ["node_files warning"]),
        (with_files(951, 1000), AT_ONCE, ["node_files bad"]),
        (figures(cpu=90.0), None, []),
        (figures(cpu=90.1), HELD, ["node_cpu warning"]),
        (figures(cpu=180.0), HELD, ["node_cpu warning"]),
        (figures(disk=10.0), None, []),
        (figures(disk=9.9), HELD, ["disk_free warning"]),
        (figures(disk=2.9), HELD, ["disk_free bad"]),
        (figures(cpu=99.0, disk=1.0), HELD, ["disk_free bad", "node_cpu warning"]),
        (figures(disk=None, hangs_s=5.0), None, []),
        (figures(disk=None, hangs_s=5.1), WARM, ["disk_hangs warning"]),
        (figures(disk=None, hangs_s=31.0), WARM, ["disk_hangs bad"]),
        (figures(dropped=1), WARM, ["caches_full warning"]),
    ],
)
def test_node_check_opens_beyond_its_limit_after_warm_up_or_hold(
    found: NodeFigures, at: float | None, expected: list[str]
) -> None:
    engine = HealthEngine(0.0, NODE_CHECKS)
    for now in (AT_ONCE, WARM, HELD):
        issues = engine.update(found, now, START_WALL + now)
        is_open = at is not None and now >= at
        assert [f"{each['check']} {each['level']}" for each in issues] == (expected if is_open else [])
    assert {each["check"] for each in issues} <= set(CHECK_NAMES)


def test_node_issue_titles_have_value_and_limit() -> None:
    engine = HealthEngine(0.0, NODE_CHECKS)
    engine.update(figures(cpu=97.3, disk=2.0), 100.0, START_WALL)
    disk, cpu = engine.update(figures(cpu=97.3, disk=2.0), 145.0, START_WALL + 45)
    assert cpu["title"] == f"CPU 97{N}% of one core (limit 90{N}%) for 45{N}s."
    assert (disk["title"], disk["expected"]) == (f"Disk space 2.0{N}% free (limit 3{N}%).", f"at least 3{N}%")
    (files,) = HealthEngine(0.0, NODE_CHECKS).update(with_files(951, 1000), 1.0, START_WALL)
    assert files["title"] == f"951 of 1,000 files open, 95{N}%."
    (hanging,) = HealthEngine(0.0, NODE_CHECKS).update(figures(disk=None, hangs_s=72.0), 100.0, START_WALL)
    assert hanging["title"] == f"The data folder's disk has not answered for 1{N}min 12{N}s (limit 30{N}s)."


DOCS = Path(__file__).parents[4] / "docs" / "health.md"
ROW = re.compile(r"^\| `(\w+)` \|.*\| ([^|]+) \| ([^|]+) \| (\d+) s \| [^|]+ \|$", re.MULTILINE)
SIGNS = {"gt": ">", "lt": "<", "ge": "≥"}


def limit(check: Check[Any], level: Level) -> str:
    if level not in check.levels:
        return "-"
    return f"{SIGNS[check.passes.__name__]} {check.limit(level):g} {check.unit}".strip()


def test_documented_table_lists_every_check_with_its_limits_and_hold() -> None:
    rows = {code: (warning, bad, float(hold)) for code, warning, bad, hold in ROW.findall(DOCS.read_text())}
    checks: list[Check[Any]] = [*CHECKS, *NODE_CHECKS]
    made = {check.code: (limit(check, "warning"), limit(check, "bad"), check.hold_s) for check in checks}
    assert rows == made


CAUSE = re.compile(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|$", re.MULTILINE)


def test_documented_table_of_causes_matches_the_code() -> None:
    told = {code: tuple(re.findall(r"\w+", causes)) for code, causes in CAUSE.findall(DOCS.read_text())}
    assert told == STANDS_STILL
