"""The one act that a session's page advises, by what is known; and the last minute in a sentence."""

from typing import Any

import pytest

from dashboard.sessions.advice import CHECK_ACTS, OTHERWISE, RULES, Situation, advise
from dashboard.streams.measurements import LastMinute, summarize_last_minute
from ingest.contracts import END_REASONS
from ingest.live.health import CHECKS
from ingest.telemetry.series import GAUGES, Series


@pytest.mark.parametrize(
    ("known", "act"),
    [
        ({"reason": "tcp_reset", "seen": "falling"}, "Lower the bitrate, or use a cable"),
        ({"reason": "tcp_reset", "seen": "silent"}, "Check the encoder, then its uplink"),
        ({"reason": "tcp_reset", "seen": "far"}, "Look at the network on the way"),
        ({"reason": "tcp_reset", "seen": "slow"}, "Relieve the encoder"),
        ({"reason": "tcp_reset", "seen": "steady"}, "Call the place and start the encoder again"),
        ({"reason": "idle_timeout", "seen": "nothing"}, "Check that the encoder is running"),
        ({"reason": "tcp_reset", "seen": "falling", "back": "good"}, "Nothing"),
        ({"reason": "tcp_reset", "seen": "falling", "back": "bad"}, "Look at the stream"),
        ({"reason": "tcp_reset", "seen": "falling", "back": "again_off"}, "Lower the bitrate, or use a cable"),
        ({"reason": "tcp_reset", "seen": "falling", "node": "down"}, "Bring the node back"),
        ({"reason": "node_shutdown", "node": "draining"}, "Point the encoder at another node"),
        ({"reason": "node_shutdown", "node": "up"}, "Wait a minute"),
        ({"reason": "node_lost", "node": "down", "back": "good"}, "Nothing"),
        ({"reason": "key_revoked", "key": "revoked"}, "Give out another key"),
        ({"reason": "key_revoked", "key": "fine"}, "Give the encoder another key"),
        ({"reason": "tcp_reset", "key": "disabled"}, "Enable the key"),
        ({"reason": "tcp_reset", "key": "expired", "back": "good"}, "Nothing"),
        ({"reason": "tcp_reset", "key": "expired", "refused": ""}, "Move the key's expiry"),
        ({"reason": "tcp_reset", "key": "over_limit"}, "Set the bitrate below the key's limit"),
        ({"reason": "over_limit", "key": "fine"}, "Lower the bitrate, or raise the limit"),
        ({"reason": "tcp_reset", "refused": "busy"}, "Let it in again"),
        ({"reason": "tcp_reset", "refused": "busy", "back": "good"}, "Nothing"),
        ({"reason": "tcp_reset", "refused": "busy", "node": "down"}, "Bring the node back"),
        ({"reason": "kicked"}, "Decide whether it may come back"),
        ({"reason": "replaced", "back": "bad"}, "Look at the stream"),
        ({"reason": "client_unpublish"}, "Nothing, if this was meant"),
        ({"reason": "", "back": "on"}, "Nothing"),
        ({"reason": "", "back": "on", "check": "bitrate_low"}, "Lower the bitrate, or use a cable"),
        ({"reason": "", "back": "on", "check": "a_new_one"}, "Look at the stream"),
    ],
)
def test_the_one_act(known: dict[str, Any], act: str) -> None:
    assert advise(Situation(**known)).act == act


def test_every_check_has_an_act() -> None:
    assert set(CHECK_ACTS) == {check.code for check in CHECKS}


@pytest.mark.parametrize("reason", END_REASONS)
def test_every_end_has_an_advice(reason: str) -> None:
    advice = advise(Situation(reason=reason))
    assert advice != OTHERWISE
    assert advice.why.endswith(".")


def test_every_rule_can_be_reached() -> None:
    """None is hidden by one before it: it is the first that fits something that it names."""
    for rule in RULES:
        found = [
            Situation(reason=reason, seen=seen, key=key, node=node, back=back)  # type: ignore[arg-type]
            for reason in rule.reason or ("", *END_REASONS)
            for seen in rule.seen or ("nothing", "steady")
            for key in rule.key or ("fine",)
            for node in rule.node or ("up",)
            for back in rule.back or ("off",)
        ]
        assert any(advise(situation).act == rule.act for situation in found), rule.act


def minute(**columns: Any) -> Series:
    """60 samples; a column is a value, or (before, after) the 50th."""
    values: dict[str, list[float | None]] = {}
    for name in GAUGES:
        given = columns.get(name, {"video_kbps": 3800.0, "audio_kbps": 100.0, "fps": 30.0, "idle_ms": 10.0}.get(name))
        before, after = given if isinstance(given, tuple) else (given, given)
        values[name] = [before] * 50 + [after] * 10
    return Series(at=[float(second) for second in range(60)], values=values, health=["good"] * 60)


@pytest.mark.parametrize(
    ("columns", "seen", "sentence"),
    [
        (
            {"video_kbps": (3800.0, 1220.0), "rtt_ms": (40.0, 480.0)},
            "falling",
            "In the last 60 s the bitrate fell from 3,900 to 1,320 kbit/s and the round trip rose to 480 ms.",
        ),
        ({}, "steady", "In the last 60 s the bitrate was steady at 3,900 kbit/s."),
        ({"idle_ms": (10.0, 7000.0)}, "silent", "In the last 60 s no media arrived for the last 7 s."),
        (
            {"rtt_ms": 300.0},
            "far",
            "In the last 60 s the bitrate was steady at 3,900 kbit/s and the round trip rose to 300 ms.",
        ),
        (
            {"fps": (30.0, 20.0)},
            "slow",
            "In the last 60 s the bitrate was steady at 3,900 kbit/s and only 20.0 frames a second came.",
        ),
        ({"video_kbps": 1000.0}, "falling", "In the last 60 s the bitrate was low, 1,100 kbit/s."),
    ],
)
def test_the_last_minute_in_a_sentence(columns: dict[str, Any], seen: str, sentence: str) -> None:
    found = summarize_last_minute(minute(**columns), target_kbps=4000, nominal_fps=30)
    assert found.seen == seen
    assert found.sentence.replace("\u00a0", " ") == sentence


def test_nothing_measured_says_so() -> None:
    assert summarize_last_minute(Series()) == LastMinute()
    assert LastMinute().sentence == "Nothing was measured in the last 60 s."
