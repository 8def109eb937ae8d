"""What a report says, its findings with advice, tiles and charts, and what it counts, worked out by hand."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analytics import periods, wording
from analytics.completeness import Completeness
from analytics.models import Dimension, ReportPlan
from analytics.reports import builder, figures, findings
from analytics.reports.document import Document
from analytics.reports.figures import Gathered
from analytics.scopes import Scope
from analytics.tables import PARTIALS, partition_folder
from ingest.models import Application, Stream
from ingest.services.refusals import CODES, REASONS
from tests.analytics.rollups import HOUR, HOUR_MS, MONDAY, make_live_hour, save_rollup

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_lake")]

Kind = ReportPlan.Kind
NOW = datetime(2026, 11, 9, 0, 12, tzinfo=UTC)
SUNDAY_EVENING = MONDAY + 6 * 24 * HOUR + 19 * HOUR


def report(lake: Path, kind: str = Kind.WEEKLY, zone: str = "UTC", scope: str = "") -> Document:
    period = periods.containing(kind, date(2026, 11, 8), periods.zone_of(zone))
    of = Scope.of(scope)
    made = builder.build_document(
        period,
        of,
        former=(period.before, of),
        completeness=Completeness(168, 168, []),
        now=NOW,
        lake=lake,
    )
    return json.loads(json.dumps(made, ensure_ascii=False).replace(wording.NBSP, " "))  # type: ignore[no-any-return]


def week(path: str, first: datetime = MONDAY, **figures: Any) -> None:
    for number in range(7):
        make_live_hour(path, first + number * 24 * HOUR + 10 * HOUR, **figures)


def bad_evening(path: str) -> None:
    breaks: dict[str, Any] = dict.fromkeys(("starts", "ends", "unplanned_ends", "reconnects"), 1)
    breaks |= {"end_reasons": {"tcp_reset": 1}, "recovery_ms": 20_000}
    trouble = dict.fromkeys(("below_ms", "bad_ms"), HOUR_MS * 9 // 10) | {"good_ms": HOUR_MS // 10}
    for number in range(3):
        make_live_hour(path, SUNDAY_EVENING + number * HOUR, kbps=1920, **trouble, **breaks)


def test_report_of_a_steady_week_has_one_good_finding(lake: Path) -> None:
    week("live/a")
    week("live/a", MONDAY - timedelta(days=7))
    made = report(lake)
    assert made["lede"] == ("A steady week: no stream had trouble. Uptime 100 %, as in the week before.")
    assert made["findings"] == [{"level": "good", "what": "Nothing went wrong.", "advice": "", "stream": ""}]
    assert [tile["comparison"] for tile in made["tiles"]] == [
        "as the week before",
        "week before: 100 %",
        "as the week before",
        "none tried",
        "as the week before",
        "as the week before",
    ]
    assert made["notes"] == []


def test_report_leads_with_the_one_bad_evening_and_its_stream(lake: Path) -> None:
    app = Application.objects.create(name="live")
    Stream.objects.create(application=app, name="arena-main", target_kbps=6000)
    week("live/arena-main")
    week("live/studio")
    week("live/studio", MONDAY - timedelta(days=7))
    bad_evening("live/arena-main")
    made = report(lake)
    assert made["lede"] == (
        "A steady week with one bad evening. Uptime 99.9 %, 0.1 points less than the week before. On Sunday from 19:00 "
        "to 22:00 **live/arena-main** fell to 1,920 kbit/s and dropped three times; its uplink could not carry its "
        "bitrate."
    )
    below, broke = made["findings"]
    assert below["level"] == "bad"
    assert below["what"] == "live/arena-main was below 70 % of its target for 2 h 42 min."
    assert below["advice"] == "Use wired Ethernet, or lower the bitrate to 1,900 kbit/s."
    assert broke["what"] == "live/arena-main dropped three times (mean time to recover 20 s)."
    assert broke["advice"].startswith("The connection was reset: check that the encoder is running")
    assert [row["stream"] for row in made["streams"]] == ["live/arena-main", "live/studio"]
    assert made["streams"][0]["reason"] == "was below 70 % of its target for 2 h 42 min"
    assert [row["stream"] for row in made["best"]] == ["live/studio"]
    (chart,) = made["charts"]
    assert chart["target"] == 6000
    assert len(chart["p50"]) == 168
    assert chart["p50"][163:166] == [1920] * 3
    assert sum(value is not None for value in chart["p50"]) == 10  # Off air there is nothing, not zero.
    assert [tick["label"] for tick in chart["ticks"]] == [
        *("Mon 2", "Tue 3", "Wed 4", "Thu 5", "Fri 6", "Sat 7", "Sun 8")
    ]
    assert chart["edges"] == [24 * number for number in range(1, 7)]
    tiles = {tile["label"]: tile["comparison"] for tile in made["tiles"]}
    assert tiles["Live time"] == "10 h more"
    assert tiles["Drops"] == "3 more"
    assert tiles["Player hours"] == "143 % more"


def test_report_states_hours_in_its_time_zone(lake: Path) -> None:
    week("live/a")
    bad_evening("live/a")
    assert "On Monday" not in report(lake)["lede"]
    made = report(lake, zone="America/New_York")
    assert "On Sunday from 14:00 to 17:00 **live/a**" in made["lede"]
    assert made["lede"].startswith("A steady week with one bad afternoon.")
    assert made["period"]["begins"] == "2 Nov 2026, 00:00"
    assert made["made_words"] == "8 Nov 2026, 19:12"


def test_each_rule_speaks_of_its_trouble(lake: Path) -> None:
    week("live/late", gop_2=0, gop_10=450, keyframe_interval_max=8.0)
    week("live/lossy", missing_frames_est=1200)
    week("live/silent", starved_ms=HOUR_MS // 20)
    week("live/ill", bad_ms=HOUR_MS // 4, good_ms=3 * HOUR_MS // 4)
    week("live/warned", warning_ms=HOUR_MS // 2, good_ms=HOUR_MS // 2)
    said = {finding["stream"]: finding for finding in report(lake)["findings"]}
    assert {(stream, each["level"], each["what"]) for stream, each in said.items()} == {
        ("live/late", "warning", "live/late had keyframe intervals over 4 s (100 % of them, up to 8 s)."),
        ("live/lossy", "warning", "live/lossy dropped about 1.1 % of its frames."),
        ("live/silent", "warning", "live/silent was connected but silent for 21 min."),
        ("live/ill", "bad", "live/ill was in bad health for 105 min."),
        ("live/warned", "warning", "live/warned had a warning for 3 h 30 min."),
    }
    assert said["live/late"]["advice"] == "Set the keyframe interval to 2 s; players now wait up to 8 s to start."


@pytest.mark.parametrize(
    ("reports", "stalled_ms", "level", "share"),
    [(20, 36_000, "warning", "1.0"), (20, 180_000, "bad", "5.0"), (20, 35_000, "good", ""), (19, 360_000, "good", "")],
)
def test_stalled_viewers_are_a_finding_from_20_viewer_reports_on(
    lake: Path, reports: int, stalled_ms: int, level: str, share: str
) -> None:
    """By so many that told how they played; of fewer nobody can say whose network it was."""
    told = {"viewer_reports": reports, "viewer_stalled_ms": stalled_ms, "viewer_watched_ms": HOUR_MS - stalled_ms}
    make_live_hour("live/a", MONDAY, viewer_ms=2 * HOUR_MS, viewer_joins=15, viewer_join_ms=30_000, **told)
    made = report(lake)
    (finding,) = made["findings"]
    assert finding["level"] == level
    assert not share or finding["what"] == f"live/a had viewers by HLS wait for media for {share} % of their time."
    tiles = {tile["label"]: (tile["value"], tile["unit"]) for tile in made["more"]}
    assert tiles["Viewer hours by HLS"] == ("2", "h")
    assert (tiles["Time to first picture"], tiles["Viewers that reported"]) == (("2", "s"), (str(reports), ""))


def test_report_without_hls_viewers_has_no_viewer_tiles(lake: Path) -> None:
    week("live/a")
    assert not [tile for tile in report(lake)["more"] if "HLS" in tile["label"] or "picture" in tile["label"]]


def test_refusals_are_reported_by_reason_and_stream(lake: Path) -> None:
    start = MONDAY + 9 * HOUR
    common: dict[str, Any] = {"refused": 8, "accepted": 241, "refusals": {"key_expired": 6, "busy": 2}}
    save_rollup("live", start, dimension=Dimension.APP, **common)
    save_rollup("", start, dimension=Dimension.NODE, value="n1", **common)
    save_rollup("live/pop-up", start, refused=6, refusals={"key_expired": 6})
    make_live_hour("live/a", start + HOUR)
    made = report(lake)
    assert made["findings"] == [
        {
            "level": "warning",
            "what": "8 connections were refused.",
            "advice": "6 with an expired key for live/pop-up and 2 because the stream was busy.",
            "stream": "",
        }
    ]
    assert made["refusals"] == [
        {"reason": "key_expired", "words": "Key expired", "count": 6},
        {"reason": "busy", "words": "Busy", "count": 2},
    ]
    (refused,) = (tile for tile in made["tiles"] if tile["label"] == "Refused connections")
    assert (refused["value"], refused["comparison"]) == ("8", "of 249 connections")
    assert [row["stream"] for row in made["streams"]] == ["live/a"]  # The other was never on air.


def test_refusals_add_up_to_those_that_were_refused(lake: Path) -> None:
    start = MONDAY + 9 * HOUR
    reasons = {"key_unknown": 12, "busy": 9, "key_expired": 5, "banned": 2, "draining": 1}
    save_rollup("", start, dimension=Dimension.NODE, value="n1", refused=32, refusals=reasons)
    make_live_hour("live/a", start)
    made = report(lake)
    assert made["findings"][0]["what"] == "32 connections were refused."
    assert made["findings"][0]["advice"] == (
        "12 with an unknown key, 9 because the stream was busy, 5 with an expired key and 6 for other reasons."
    )
    assert sum(each["count"] for each in made["refusals"]) == made["figures"]["refused"] == 32
    assert made["refusals"][-1] == {"reason": "other", "words": "Other", "count": 3}


def test_streams_are_in_the_order_of_lost_minutes_times_audience_then_of_names(lake: Path) -> None:
    minute = 60_000
    make_live_hour("live/long-but-unseen", MONDAY, live_ms=HOUR_MS - 20 * minute, player_ms=0)
    make_live_hour("live/watched", MONDAY, bad_ms=2 * minute, good_ms=HOUR_MS - 2 * minute, player_ms=50 * HOUR_MS)
    make_live_hour("live/gaps", MONDAY, recovery_ms=5 * minute, player_ms=2 * HOUR_MS)
    for name in ("b", "a"):
        make_live_hour(f"live/{name}", MONDAY)
    rows = report(lake)["streams"]
    assert [(row["stream"], row["lost_min"]) for row in rows] == [
        ("live/watched", 2),
        ("live/long-but-unseen", 20),
        ("live/gaps", 5),
        ("live/a", 0),
        ("live/b", 0),
    ]


def test_there_is_one_count_of_drops(lake: Path) -> None:
    """Two sessions ended unexpectedly; it came back eight times, after clean stops as well."""
    week("live/a")
    make_live_hour("live/a", SUNDAY_EVENING, ends=9, unplanned_ends=2, starts=9, reconnects=8, recovery_ms=160_000)
    made = report(lake)
    (found,) = made["findings"]
    assert found["what"] == "live/a dropped twice (mean time to recover 20 s)."
    assert made["lede"].endswith("**live/a** dropped twice.")
    assert {tile["label"]: tile["value"] for tile in made["tiles"]}["Drops"] == "2"
    assert made["streams"][0]["unplanned_ends"] == made["figures"]["unplanned_ends"] == 2
    assert (
        "reconnect"
        not in json.dumps([made[part] for part in ("lede", "tiles", "more", "findings", "footnote")]).lower()
    )


def test_drops_of_the_worst_hours_are_said_to_be_a_part(lake: Path) -> None:
    week("live/a", unplanned_ends=1)
    make_live_hour("live/a", SUNDAY_EVENING, unplanned_ends=3)
    assert "**live/a** had 3 of its 10 drops." in report(lake)["lede"]


def test_refusals_without_application_count_only_in_reports_of_all_streams(lake: Path) -> None:
    start = MONDAY + 9 * HOUR
    make_live_hour("live/a", start)
    save_rollup("", start, dimension=Dimension.NODE, value="n1", accepted=1, refused=3, refusals={"unknown_app": 3})
    save_rollup("", start, dimension=Dimension.NODE, value="n2", refused=1, refusals={"banned": 1})
    made = report(lake)
    assert made["findings"][0]["what"] == "4 connections were refused."
    assert {each["reason"]: each["count"] for each in made["refusals"]} == {"unknown_app": 3, "banned": 1}
    assert made["figures"]["success_percent"] == 20
    assert report(lake, scope="live")["figures"]["refused"] == 0


def test_a_stream_that_was_only_refused_published_nothing(lake: Path) -> None:
    save_rollup("live/cam", MONDAY, refused=5, refusals={"key_revoked": 5})
    made = report(lake)
    assert made["lede"] == "Nothing was published in this week."
    assert made["figures"]["streams"] == 0
    assert len(made["notes"]) == 1


@pytest.mark.parametrize(
    ("live", "gap_s", "level", "lede"),
    [
        (1, 1, "good", "A steady week: no stream had trouble. Uptime 99.9 %."),
        (1, 40, "warning", "A week with minor trouble on one stream. Uptime 98.9 %."),
        (1, 280, "warning", "A week with minor trouble on one stream. Uptime 92.8 %."),
        (0.229, 0, "bad", "A week with trouble on one stream. Uptime 22.9 %."),
    ],
)
def test_report_of_a_stream_with_low_uptime_is_not_called_steady(
    lake: Path, live: float, gap_s: int, level: str, lede: str
) -> None:
    broken = {"recovery_ms": 1000 * gap_s, "starts": 2, "reconnects": 1} if gap_s else {}
    make_live_hour("live/a", MONDAY, live_ms=int(HOUR_MS * live), **broken)
    made = report(lake)
    assert made["lede"] == lede
    assert [finding["level"] for finding in made["findings"]] == [level]
    if level == "bad":
        assert made["findings"][0]["what"] == "live/a had only 22.9 % uptime."


def test_breaks_that_took_long_are_bad(lake: Path) -> None:
    week("live/short")
    make_live_hour("live/short", SUNDAY_EVENING, unplanned_ends=2, reconnects=2, recovery_ms=20_000)
    make_live_hour(
        "live/long", SUNDAY_EVENING, live_ms=HOUR_MS // 2, unplanned_ends=2, reconnects=2, recovery_ms=500_000
    )
    assert [(each["stream"], each["level"]) for each in report(lake)["findings"]] == [
        ("live/long", "bad"),
        ("live/short", "warning"),
    ]


def test_every_reason_of_a_refused_publish_has_words() -> None:
    of_players = {
        "elsewhere",
        "too_many_awaited",
        "play_not_allowed",
        "token_missing",
        "token_invalid",
        "token_expired",
        "recording_unknown",
        "relay_unknown",
        "relay_loop",
        "relay_too_deep",
    }
    of_downloads = {"download_expired", "download_unknown"}
    assert "publish" in CODES
    assert set(findings.REFUSAL_WORDS) == set(REASONS) - of_players - of_downloads


def test_nothing_recorded_is_said(lake: Path) -> None:
    made = report(lake)
    assert made["lede"] == "Nothing was published in this week."
    assert [*made["findings"], *made["streams"], *made["charts"]] == []
    assert len(made["notes"]) == 1
    assert all(tile["value"] in {"–", "0"} for tile in made["tiles"])
    assert "former" not in made


def test_a_day_of_23_hours_has_its_hours_at_their_place(lake: Path) -> None:
    zone = periods.zone_of("Europe/Berlin")
    period = periods.containing(Kind.DAILY, date(2026, 3, 29), zone)
    for each in period.starts:
        make_live_hour("live/a", each)
    made = builder.build_document(
        period, Scope(), former=None, completeness=Completeness(23, 23, []), now=NOW, lake=lake
    )
    (chart,) = made["charts"]
    assert chart["p50"] == [6000] * 23
    assert [(tick["at"], tick["label"]) for tick in chart["ticks"]] == [
        *((0, "00:00"), (2, "03:00"), (5, "06:00"), (8, "09:00"), (11, "12:00"), (14, "15:00"), (17, "18:00")),
        *((20, "21:00"), (23, "00:00")),
    ]
    assert made["figures"]["live_h"] == 23


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [(900, "1 s"), (119_000, "119 s"), (150_000, "2 min"), (7_100_000, "118 min"), (10_380_000, "2 h 53 min")],
)
def test_time_span_is_worded_in_seconds_minutes_or_hours(milliseconds: int, words: str) -> None:
    assert wording.span(milliseconds).replace(wording.NBSP, " ") == words


@pytest.mark.parametrize(
    ("value", "words"), [(None, "–"), (100, "100"), (99.97, "99.9"), (99.4, "99.4"), (0, "0.0"), (0.04, "0.0")]
)
def test_percent_is_only_whole_when_it_is(value: float | None, words: str) -> None:
    assert wording.percent(value) == words


# --- Figures ---


def gather(lake: Path, scope: str = "", zone: str = "UTC") -> Gathered:
    period = periods.containing(Kind.DAILY, date(2026, 11, 2), periods.zone_of(zone))
    return figures.gather(period, Scope.of(scope), lake)


@pytest.mark.both_forms
def test_report_figures_are_sums_and_derived_values_of_the_rollups(lake: Path) -> None:
    common: dict[str, Any] = {"dimension": Dimension.APP, "value": "live", "starts": 1, "accepted": 1}
    save_rollup(
        "live",
        MONDAY,
        **common,
        broadcasts=1,
        kbps=[1000.0, 2000.0, 3000.0],
        elapsed_ms=HOUR_MS,
        live_ms=HOUR_MS,
        good_ms=HOUR_MS,
        player_ms=30 * HOUR_MS,
        peak_players=40,
        peak_at=MONDAY + timedelta(minutes=3),
        out_bytes=2_000_000_000,
        gop_2=60,
        refused=1,
        refusals={"busy": 1},
    )
    save_rollup(
        "live",
        MONDAY + HOUR,
        **common,
        reconnects=1,
        recovery_ms=60_000,
        ends=2,
        unplanned_ends=2,
        end_reasons={"tcp_reset": 2},
        kbps=[4000.0, 4000.0, 4000.0],
        elapsed_ms=HOUR_MS // 2,
        live_ms=HOUR_MS // 2 - 60_000,
        warning_ms=HOUR_MS // 4,
        bad_ms=HOUR_MS // 4,
        starved_ms=60_000,
        targeted_ms=HOUR_MS // 2,
        below_ms=HOUR_MS // 8,
        video_frames=990,
        missing_frames_est=10,
        ts_gaps=3,
        player_ms=6 * HOUR_MS,
        viewer_ms=4 * HOUR_MS,
        viewer_reports=40,
        viewer_joins=36,
        viewer_join_ms=54_000,
        viewer_stalled_ms=36_000,
        viewer_watched_ms=3 * HOUR_MS - 36_000,
        peak_viewers=60,
        peak_players=90,
        peak_at=MONDAY + timedelta(minutes=70),
        out_bytes=500_000_000,
        gop_10=20,
        keyframe_interval_max=8.0,
        refused=2,
        refusals={"busy": 1, "key_expired": 1},
    )
    found = figures.figures_of_document(gather(lake, "live"))
    live_h = 1.5 - 1 / 60
    assert found == {
        "live_h": pytest.approx(live_h),
        "streams": 0,  # No stream's rows are there.
        "uptime_percent": pytest.approx(100 * live_h / (1.5 + 1 / 60)),
        "starts": 2,
        "broadcasts": 1,
        "reconnects": 1,
        "reconnects_per_h": pytest.approx(1 / live_h),
        "unplanned_ends": 2,
        "mtbf_h": pytest.approx(live_h / 2),
        "mttr_s": 60.0,
        "health_percent": pytest.approx(100 * (1 + 0.25 / 2) / 1.5),
        "bad_h": 0.25,
        "warning_h": 0.25,
        "below_h": 0.125,
        "below_percent": pytest.approx(25),
        "starved_percent": pytest.approx(100 * 60 / 5400),
        "gaps_per_h": pytest.approx(3 / live_h),
        "missing_percent": pytest.approx(1),
        "mean_kbps": 0.0,
        "p5": 1000.0,
        "p50": pytest.approx(3000, rel=0.01),
        "p95": pytest.approx(4000, rel=0.01),
        "cv": pytest.approx((4 / 3) ** 0.5 / 3),  # The values 1, 2, 3, 4, 4, 4: their variance is 4/3.
        "gop": pytest.approx(
            {"gop_1": 0, "gop_2": 75, "gop_2_5": 0, "gop_4": 0, "gop_6": 0, "gop_10": 25, "gop_longer": 0}
        ),
        "keyframe_interval_max": 8.0,
        "accepted": 2,
        "refused": 3,
        "success_percent": pytest.approx(40),
        "plays": 0,
        "unique_players": None,
        "player_hours": pytest.approx(36),
        "average_players": pytest.approx(36 / live_h),
        "peak_players": 90,
        "peak_at": "2026-11-02T01:10:00+00:00",
        "peak_streams": 0,
        "delivered_gb": pytest.approx(2.5),
        "peak_viewers": 60,
        "viewer_hours": 4.0,
        "viewer_reports": 40,
        "viewer_join_s": 1.5,
        "viewer_stalled_percent": pytest.approx(1 / 3),
    }
    assert gather(lake, "live").together.refusals == {"busy": 2, "key_expired": 1}


@pytest.mark.both_forms
def test_hours_of_other_days_streams_and_dimensions_stay_out(lake: Path) -> None:
    for start in (MONDAY - HOUR, MONDAY, MONDAY + 23 * HOUR, MONDAY + 24 * HOUR):
        for path in ("live/a", "live/b", "cams/a"):
            save_rollup(path, start, kbps=[1.0], elapsed_ms=1000, live_ms=1000)
            save_rollup(
                path, start, kbps=[1.0], dimension=Dimension.BROADCAST, value="2026-11-02T00:00:00Z", live_ms=1000
            )
    assert {path: of.live_ms for path, of in gather(lake).streams.items()} == dict.fromkeys(
        ("cams/a", "live/a", "live/b"), 2000
    )
    assert set(gather(lake, "live").streams) == {"live/a", "live/b"}
    assert gather(lake, "live/a").together.live_ms == 2000
    assert gather(lake, "live/none").streams == {}


@pytest.mark.both_forms
def test_days_are_those_of_the_time_zone(lake: Path) -> None:
    for number in range(-24, 48):
        save_rollup("live/a", MONDAY + number * HOUR, live_ms=1, elapsed_ms=1)
    assert gather(lake, "live/a", "Europe/Berlin").together.live_ms == 24
    assert gather(lake, "live/a", "Asia/Kolkata").together.live_ms == 25  # Widened to whole hours.


@pytest.mark.both_forms
def test_percentiles_are_of_all_samples_of_a_stream(lake: Path) -> None:
    save_rollup("live/a", MONDAY, kbps=[float(each) for each in range(1, 1001)])
    save_rollup("live/a", MONDAY + HOUR, kbps=[5000.0] * 1000)
    low, median, high = gather(lake).streams["live/a"].quantiles
    assert low == pytest.approx(100, abs=10)
    assert median == pytest.approx(1000, abs=10)
    assert high == 5000


@pytest.mark.both_forms
def test_a_peak_across_applications_is_of_one_minute(lake: Path) -> None:
    for app, players in (("live", 50), ("cams", 70)):
        peaks: dict[str, Any] = {"peak_players": players, "peak_viewers": players - 10, "peak_streams": 2}
        save_rollup(app, MONDAY, dimension=Dimension.APP, peak_at=MONDAY, **peaks)
    save_rollup("live", MONDAY + HOUR, dimension=Dimension.APP, peak_players=80, peak_streams=1, peak_at=MONDAY + HOUR)
    both = gather(lake).together
    assert (both.peak_players, both.peak_viewers) == (120, 100)  # No minutes are left: the most that it can have been.
    rows = [(0, "live", "a", 50, 40, 1), (0, "cams", "b", 20, 20, 1)]
    rows += [(60, "live", "a", 25, 0, 1), (60, "cams", "b", 70, 55, 1)]
    rows += [(60, "cams", "b", 9, 9, 1), (60, "cams", "c", 0, 0, 0), (120, "live", "d", 0, 0, 1)]
    start_us = int(MONDAY.timestamp()) * 1_000_000
    columns = ("minute_us", "app", "name", "peak_players", "peak_viewers", "live_ms")
    table = pa.Table.from_pylist(
        [dict(zip(columns, (start_us + second * 1_000_000, *rest), strict=True)) for second, *rest in rows]
    )
    folder = partition_folder(lake, PARTIALS, MONDAY) / "one"
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "minutes.parquet")
    found = gather(lake).together
    assert (found.peak_players, found.peak_at, found.peak_streams) == (95, MONDAY + timedelta(minutes=1), 2)
    assert found.peak_viewers == 60
    assert found.peak_at is not None
    assert found.peak_at.tzinfo == UTC
