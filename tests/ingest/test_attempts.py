"""Refusals that come again are counted in one row, nobody fills a table, and keys are nowhere."""

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from ingest import log_records
from ingest.consumers import recorder
from ingest.contracts import EventRecord
from ingest.log_records import Bound
from ingest.models import Application, Attempt, Lease, Session, StatusEvent, Stream
from ingest.services import attempts, keys
from ingest.services.attempts import ALL_NEW_A_MINUTE, NEW_A_MINUTE, AttemptRow, Attempts
from ingest.services.authorization import Peer
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from ingest.telemetry import TelemetryWriter, set_writer
from tests.ingest.admitting import NOW
from tests.ingest.control import Connection, flush
from tests.ingest.faults import missing_table

pytestmark = pytest.mark.usefixtures("process")

ROW = AttemptRow(NOW, "publish", "live", "rk_7Qd4…", "192.0.2.7", "OBS", "node-a", "key_unknown", "", "")


def after(seconds: float, **fields: Any) -> AttemptRow:
    return replace(ROW, at=NOW + timedelta(seconds=seconds), **fields)


def written(process: HistoryWriter, *rows: AttemptRow) -> list[tuple[float, float, int]]:
    """All rows' first and last second, and how many each stands for."""
    for row in rows:
        process.put(row)
    assert process.flush(30)
    return [
        ((row.at - NOW).total_seconds(), (row.last_at - NOW).total_seconds(), row.count)
        for row in Attempt.objects.order_by("pk")
        if row.last_at is not None
    ]


@pytest.mark.both_forms
def test_single_attempt_is_one_row_with_count_1(process: HistoryWriter) -> None:
    assert written(process, ROW) == [(0, 0, 1)]


@pytest.mark.stores
def test_attempt_repeated_within_a_minute_raises_the_count_of_its_row(process: HistoryWriter) -> None:
    assert written(process, ROW, after(3), after(10), after(70)) == [(0, 70, 4)]
    assert written(process, after(131)) == [(0, 70, 4), (131, 131, 1)]  # More than a minute after the last.


@pytest.mark.both_forms
def test_attempt_repeated_all_day_takes_at_most_one_row_an_hour(process: HistoryWriter) -> None:
    checks = [after(second, action="connect", name="", reason="tcp_reset") for second in range(0, 86_400, 10)]
    waiting = Attempts()
    assert all(waiting.put(check) for check in checks)
    assert len(waiting) == 24
    rows = written(process, *checks)
    assert sum(count for _, _, count in rows) == 8640
    assert len(rows) <= 24  # Fewer where a row goes on with what waited while it was written.


@pytest.mark.parametrize(
    "other",
    [
        {"action": "play"},
        {"app": "other"},
        {"name": "rk_8Ab1…"},
        {"address": "192.0.2.8"},
        {"reason": "key_expired"},
        {"node": "node-b"},
    ],
)
def test_attempt_differing_in_one_field_gets_a_row_of_its_own(process: HistoryWriter, other: dict[str, str]) -> None:
    assert written(process, ROW, after(1, **other), after(2), after(3, **other)) == [(0, 2, 2), (1, 3, 2)]


def test_ever_new_names_from_one_address_share_rows(process: HistoryWriter) -> None:
    rows = written(process, *(after(number / 100, name=f"cam{number}") for number in range(1000)))
    assert len(rows) == NEW_A_MINUTE + 1
    assert sum(count for _, _, count in rows) == 1000
    shared = Attempt.objects.get(count__gt=1)
    assert (shared.app, shared.name, shared.reason) == ("", "", "key_unknown")
    assert len(written(process, after(11, address="192.0.2.8"))) == NEW_A_MINUTE + 2


def test_the_addresses_of_one_ipv6_network_are_one(process: HistoryWriter) -> None:
    """Who has a /64 has an address for each attempt."""
    rows = written(process, *(after(number / 100, address=f"2001:db8:1:2::{number:x}") for number in range(1000)))
    assert len(rows) == NEW_A_MINUTE + 1
    assert Attempt.objects.get(count__gt=1).address == "2001:db8:1:2::/64"


def test_attempts_from_a_banned_network_share_one_row(process: HistoryWriter) -> None:
    banned = [after(number / 10, address=f"2001:db8:1:2::{number:x}", reason="banned") for number in range(100)]
    assert written(process, *banned) == [(0, 9.9, 100)]
    assert Attempt.objects.get().address == "2001:db8:1:2::/64"


def test_ever_new_addresses_share_rows(process: HistoryWriter) -> None:
    """As those of a botnet, or of somebody with many networks."""
    rows = written(
        process, *(after(number / 100, address=f"10.0.{number // 250}.{number % 250}") for number in range(1500))
    )
    assert len(rows) == ALL_NEW_A_MINUTE + 1
    assert sum(count for _, _, count in rows) == 1500
    shared = Attempt.objects.get(count__gt=1)
    assert (shared.address, shared.name, shared.reason) == ("", "", "key_unknown")
    assert len(written(process, after(70, name="cam9"))) == ALL_NEW_A_MINUTE + 2, "but only for a minute"


def test_flooding_address_leaves_rows_for_other_addresses(process: HistoryWriter) -> None:
    written(process, *(after(number / 100, name=f"cam{number}") for number in range(2000)))
    written(process, after(21, address="192.0.2.8"))
    assert Attempt.objects.filter(address="192.0.2.8").exists()


@pytest.mark.stores
def test_a_transaction_that_failed_counts_nothing(process: HistoryWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(process, ROW) == [(0, 0, 1)]
    failures = iter([True, True])

    def fail(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if "UPDATE" in sql and next(failures, False):
            raise OperationalError("gone after it was written")
        return result

    write = attempts.write

    def failing(rows: Any) -> None:
        with connection.execute_wrapper(fail):
            write(rows)

    monkeypatch.setattr(attempts, "write", failing)
    assert written(process, after(1), after(2)) == [(0, 2, 3)]
    assert next(failures, None) is None


class Lake:
    """Takes the place of the telemetry's writer."""

    def __init__(self) -> None:
        self.events: list[EventRecord] = []

    def event(self, record: EventRecord) -> None:
        self.events.append(record)


@pytest.mark.both_forms
async def test_a_flood_is_counted_in_the_database_and_cut_off_in_the_lake(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an event loop, as the consumers do it: pages are told, too."""
    lake, now = Lake(), 1000.9
    in_lake = []
    monkeypatch.setattr(recorder, "_lake_attempts", Bound(recorder.LAKE_ATTEMPTS_S))
    monkeypatch.setattr(log_records, "time", SimpleNamespace(monotonic=lambda: now))
    set_writer(lake)  # type: ignore[arg-type]
    try:
        for now in (1000.9, 1001.0, 1001.9):  # noqa: B007 - the clock.
            for number in range(200):
                recorder.attempt(
                    action="publish",
                    peer=Peer("192.0.2.7", "OBS", "node-a", ""),
                    app="live",
                    app_is_known=True,
                    name=f"cam{number % 3}",
                    reason="key_unknown",
                    description="",
                )
            in_lake.append(len(lake.events))
    finally:
        set_writer(None)
    assert in_lake == [recorder.LAKE_ATTEMPTS_S, 2 * recorder.LAKE_ATTEMPTS_S, 2 * recorder.LAKE_ATTEMPTS_S]
    await asyncio.to_thread(flush)
    counts = [count async for count in Attempt.objects.values_list("count", flat=True)]
    assert (len(counts), sum(counts)) == (3, 600)


def test_number_of_attempt_rows_open_for_counting_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.services.attempts.MOST_OPEN", 10)
    found = Attempts()
    for number in range(50):
        found.put(after(number, address=f"192.0.2.{number}"))
        assert len(found._open) <= 10
    found.put(after(50, address="192.0.2.49"))
    found.put(after(51, address="192.0.2.0"))
    assert len(found) == 51


@pytest.mark.stores
def test_writing_20_attempts_takes_as_many_statements_as_one() -> None:
    found, counts = Attempts(), []
    for number, several in enumerate((1, 20)):
        rows = [after(number, name=f"name{number}-{each}", stream=each, key=each) for each in range(1, several + 1)]
        for _ in range(2):
            for row in rows:
                found.put(row)
            with CaptureQueriesContext(connection) as queries:
                attempts.write(found.take(100))
            counts.append(len(queries))
    assert counts[:2] == counts[2:]
    assert sorted(set(Attempt.objects.values_list("count", flat=True))) == [2]


async def test_key_appears_in_no_row_log_or_answer(
    encoder: Connection, key: NewKey, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = keys.generate()
    answers = [await encoder.publish(key.secret), await encoder.publish(wrong, stream_id=2)]
    with missing_table("ingest_streamkey"):
        answers.append(await encoder.publish(key.secret, stream_id=3))
    await encoder.disconnect()
    flush()
    rows = [
        str(row)
        for model in (Application, Stream, Session, StatusEvent, Attempt, Lease)
        async for row in model.objects.values()
    ]
    for secret in (key.secret, wrong):
        assert secret not in "\n".join(rows)
        assert secret not in caplog.text
        assert secret not in str(answers)


@pytest.mark.parametrize("app", ["live/{}", "{}", "live/{}/x", "other/{}"])
async def test_imported_key_sent_as_application_name_reaches_no_row_and_no_lake(
    stream: Stream, settings: Any, app: str
) -> None:
    """An encoder that takes the key for a part of the server's URL, or breaks off before an answer."""
    imported = await sync_to_async(keys.create)(stream=stream, secret="oldserver-key-1")
    writer = TelemetryWriter(settings.LAKE_DIR, "node-a")
    writer.start()
    set_writer(writer)
    try:
        refused, broken = (Connection(app=app.format(imported.secret)) for _ in range(2))
        assert (await refused.connect())["code"] == "NetConnection.Connect.InvalidApp"
        await refused.disconnect("rejected")
        await broken.disconnect("idle_timeout")
    finally:
        set_writer(None)
        writer.close()
    flush()
    attempts = [str(row) async for row in Attempt.objects.values()]
    lake = duckdb.read_parquet(f"{settings.LAKE_DIR}/events/**/*.parquet", union_by_name=True).fetchall()
    assert len(attempts) == len(lake) == 2
    assert imported.secret not in str(attempts)
    assert imported.secret not in str(lake)


async def test_a_peer_cannot_cause_events_without_bound(encoder: Connection, key: NewKey) -> None:
    await encoder.publish(key.secret)
    for _ in range(2100):
        await encoder.status("NetStream.Seek.Failed", level="error")
    await encoder.disconnect()
    flush()
    assert await StatusEvent.objects.acount() == 2001
    assert (await StatusEvent.objects.order_by("-sequence").afirst()).kind == "session.ended"  # type: ignore[union-attr]
