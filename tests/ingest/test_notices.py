"""What a node has for the wall beside streams: refusals in few entries, whatever peers do."""

from datetime import UTC, datetime

import pytest

from ingest import pages
from ingest.consumers.notices import (
    FRESH_S,
    LASTS_S,
    LONGEST,
    MOST,
    MOST_OF_ADDRESS,
    SEVERAL,
    Refusals,
    put_drop,
    take_drops,
)
from ingest.services.attempts import AttemptRow

NOW = 1_700_000_000.0


def row(at: float = NOW, **fields: object) -> AttemptRow:
    usual: dict[str, object] = {
        "at": datetime.fromtimestamp(at, UTC),
        "action": "publish",
        "app": "live",
        "name": "…",
        "address": "203.0.113.7",
        "encoder": "OBS 30",
        "node": "n1",
        "reason": "key_unknown",
        "code": "NetStream.Publish.Denied",
        "description": "The stream key is not known.",
    }
    return AttemptRow(**(usual | fields))  # type: ignore[arg-type]


def test_repeated_refusal_is_one_notice_with_its_count() -> None:
    refusals = Refusals()
    for second in range(0, 40, 5):
        refusals.put(row(NOW + second))
    (entry,) = refusals.now(NOW + 40)
    assert (entry["words"], entry["count"], entry["since"], entry["at"]) == ("Wrong key", 8, NOW, NOW + 35)
    assert (entry["app"], entry["name"], entry["address"]) == ("live", "…", "203.0.113.7")


def test_expired_notice_disappears_and_its_count_restarts() -> None:
    refusals = Refusals()
    refusals.put(row())
    assert refusals.now(NOW + LASTS_S)
    assert not refusals.now(NOW + LASTS_S + 1)
    refusals.put(row(NOW + LASTS_S + 2))
    assert [entry["count"] for entry in refusals.now(NOW + LASTS_S + 3)] == [1]


def test_refused_plays_and_broken_connections_give_no_notice() -> None:
    refusals = Refusals()
    refusals.put(row(action="play", reason="token_invalid"))
    refusals.put(row(action="connect", reason="tcp_reset"))
    assert refusals.now(NOW) == []


def test_notice_handed_out_does_not_change_with_later_refusals() -> None:
    refusals = Refusals()
    refusals.put(row())
    (told,) = refusals.now(NOW)
    refusals.put(row(NOW + 1))
    assert told["count"] == 1


def test_an_address_that_tries_everything_has_few_entries() -> None:
    refusals = Refusals()
    for number in range(1000):
        refusals.put(row(name=f"cam-{number}"))
    entries = refusals.now(NOW)
    assert len(entries) == MOST_OF_ADDRESS + 1
    assert (entries[-1]["words"], entries[-1]["address"]) == (SEVERAL, "203.0.113.7")
    assert sum(entry["count"] for entry in entries) == 1000


def test_ten_thousand_addresses_cost_no_more_than_a_few() -> None:
    refusals = Refusals()
    for number in range(10_000):
        refusals.put(row(name="n" * 255, address=f"10.0.{number // 250}.{number % 250}"))
    entries = refusals.now(NOW)
    assert len(entries) == MOST + 1
    assert (entries[-1]["words"], entries[-1]["address"]) == (SEVERAL, "")
    assert sum(entry["count"] for entry in entries) == 10_000
    assert max(len(entry["name"]) for entry in entries) == LONGEST


def test_peers_that_were_gone_at_once_share_an_entry() -> None:
    refusals = Refusals()
    for number in range(1000):
        refusals.put(row(app=f"app-{number}", address=""))
    assert len(refusals.now(NOW)) <= MOST + 1


def test_stale_drops_are_discarded_instead_of_shown_later(monkeypatch: pytest.MonkeyPatch) -> None:
    take_drops()  # What others left in this process.
    now = NOW
    monkeypatch.setattr("ingest.consumers.notices.clock.now", lambda: now)
    common = {"app": "live", "node": "n1", "at": NOW - 60, "reason": "tcp_reset"}
    put_drop(pages.drop(session="old", stream=1, name="old", **common))  # type: ignore[arg-type]
    now += FRESH_S + 1
    put_drop(pages.drop(session="new", stream=2, name="new", **common))  # type: ignore[arg-type]
    assert [drop["id"] for drop in take_drops()] == ["new"]
    assert take_drops() == []
