"""At two in the morning: encoders and networks fail, and an operator's pages say which, why, and what to do.

All publishers are on air at once, on one server, while the tests run one after the other; what the pages showed, and
when, is kept by the pages themselves (`night.WATCH`). Times are counted from when a cause began.
"""

import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from ingest.live.health.engine import WARM_UP_S
from tests.e2e.night import AUDIO_FROM_S, AUDIO_UNTIL_S, HEALTHY, KBPS, LONG_GOP_S, LONG_UNTIL_S, Night, at_night
from tests.programs import key_url, publishing
from tests.server_process import wait_for

pytestmark = [
    pytest.mark.serve,
    pytest.mark.browser,
    pytest.mark.clients,
    pytest.mark.measures_time,
    pytest.mark.timeout(180),
]

TICK_S = 1.0
"""Streams are judged so often: what is held is held for whole ticks."""
MEAN_S = 5.0
"""Bitrates are means of so long."""
SLOW = 0.25
"""Of what is sent, what the slow uplink lets through."""
SLOW_FROM_S = 6.0
"""On air; what it does to the mean is done when the warm-up is over."""
HEALTHY_S = 42.0
"""The warm-up and the longest hold, of 30 s, but for what is measured over a minute before: see tests/soak."""

WAKING = """
    INSERT INTO dashboard_alertrule (name, enabled, kinds, checks, level, days, time_zone, delay_s, repeat_min, emails,
                                     is_scoped, created_at)
    VALUES ('Wake', true, '["health", "ended"]', '["starving"]', 'bad', '[]', 'UTC', 0, 0, 'ops@example.org',
            false, '2026-01-01')
    RETURNING id
"""
"""A rule of alerts as somebody is woken by."""


def wait_until(moment: float) -> None:
    wait_for(lambda: time.time() >= moment, timeout_s=30, what="the moment of a cause")


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """Everybody on air, with pages open; then what fails at once fails."""
    streams = ("slow", "gop", "mute", "silent", "killed", *HEALTHY)
    failing = streams[:4]
    with at_night(tmp_path_factory.mktemp("night"), streams, uplinks=("slow", "silent"), pages=failing) as whole:
        whole.server.rows(WAKING)
        wait_until(whole.began["slow"] + SLOW_FROM_S)
        whole.uplinks["slow"].limit(SLOW * (KBPS + 128) * 1000 / 8)
        whole.began["slow cause"] = time.time()
        wait_until(whole.began["silent"] + WARM_UP_S)
        whole.uplinks["silent"].silence()
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
    night.on_air("silent")
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
