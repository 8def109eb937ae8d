"""Who is told of a stream hears of one publisher at a time, in order, and of each event by a number that grows: whoever
writes that at the same moment, all is told, and none gives way."""

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from ingest.models import Lease, OutboxEvent, Recording, Session, StatusEvent, Stream, StreamTold
from ingest.services import admission, outbox, recordings, sessions
from ingest.services.authorization import Peer, PublishRequest
from ingest.services.history import Operation
from ingest.services.history import write as write_history
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from ingest.services.sessions import EndRow
from tests.ingest.admitting import NOW, hold
from tests.ingest.control import TOTALS
from tests.ingest.faults import at_once, in_thread
from tests.ingest.test_outbox import judged, started, write

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.stores]


def session_at(stream: Stream, seconds: float) -> Session:
    return hold(stream, started_at=NOW + timedelta(seconds=seconds))


def ended(session: Session, seconds: float) -> EndRow:
    return EndRow(session.pk, "replaced", "Taken over.", NOW + timedelta(seconds=seconds), TOTALS)


def told(stream: Stream) -> list[tuple[str, Session | None]]:
    """In the order of the numbers, which have no gaps, and in the order in which they are taken."""
    events = list(OutboxEvent.objects.filter(stream=stream).exclude(sequence=None).order_by("sequence"))
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert [event.payload["sequence"] for event in events] == [event.sequence for event in events]
    assert [event.at for event in events] == sorted(event.at for event in events)
    return [(event.kind, event.session) for event in events]


def test_publish_event_waits_for_the_former_sessions_unpublish_event(process: HistoryWriter, stream: Stream) -> None:
    first, second = session_at(stream, 0), session_at(stream, 5)
    write(process, started(first), started(second))
    assert told(stream) == [("publish", first)]
    write(process, ended(first, 6))
    assert told(stream) == [("publish", first), ("unpublish", first), ("publish", second)]
    begin = OutboxEvent.objects.get(session=second)
    assert begin.payload["at"] == "2026-03-01T12:00:05Z", "when it began, not when that could be told"
    write(process, ended(second, 9))
    assert told(stream)[-1] == ("unpublish", second)


def test_events_of_several_takeovers_come_one_session_at_a_time(process: HistoryWriter, stream: Stream) -> None:
    first, second, third = (session_at(stream, seconds) for seconds in (0, 1, 2))
    write(process, started(first), started(third), started(second), ended(first, 3))
    assert told(stream) == [("publish", first), ("unpublish", first), ("publish", second)]
    write(process, ended(second, 4), ended(third, 5))
    assert told(stream)[3:] == [("unpublish", second), ("publish", third), ("unpublish", third)]


def test_session_ending_before_its_publish_event_adds_no_events(process: HistoryWriter, stream: Stream) -> None:
    first, second = session_at(stream, 0), session_at(stream, 1)
    write(process, started(first), started(second), ended(second, 2), ended(first, 3))
    assert told(stream) == [("publish", first), ("unpublish", first)]


def test_at_the_same_instant_the_end_comes_first(process: HistoryWriter, stream: Stream) -> None:
    """As where a lease has expired: the former session ends when the new one begins."""
    first = session_at(stream, 0)
    write(process, started(first))
    second = session_at(stream, 10)
    assert sessions.end(session=first.pk, reason="node_lost", at=second.started_at)
    write(process, started(second))
    assert told(stream) == [("publish", first), ("unpublish", first), ("publish", second)]


def test_health_events_of_a_waiting_session_follow_its_publish_event(process: HistoryWriter, stream: Stream) -> None:
    first, second = session_at(stream, 0), session_at(stream, 1)
    write(process, started(first), started(second))
    write(process, judged(second, 2, check="flapping", at_s=1), judged(second, 3, check="starving", at_s=1))
    write(process, judged(second, 4, "cleared", "starving", at_s=1.5))
    assert told(stream) == [("publish", first)]
    write(process, ended(first, 2))
    assert told(stream)[1:] == [("unpublish", first), ("publish", second), ("health.opened", second)]
    opened = OutboxEvent.objects.get(session=second, kind="health.opened", sequence=4)
    assert opened.payload["health"]["check"] == "flapping"
    write(process, judged(second, 5, "cleared", "flapping", at_s=3))
    assert told(stream)[-1] == ("health.cleared", second)


def test_events_are_numbered_per_stream_and_repeats_take_no_number(process: HistoryWriter, stream: Stream) -> None:
    other = Stream.objects.create(application=stream.application, name="cam2")
    first, second = session_at(stream, 0), session_at(other, 0)
    for _ in range(2):
        write(process, started(first), started(second), judged(first, 2), ended(first, 3), ended(second, 3))
    assert [kind for kind, _ in told(stream)] == ["publish", "health.opened", "unpublish"]
    assert [kind for kind, _ in told(other)] == ["publish", "unpublish"]


def test_a_clock_that_is_set_back_moves_nothing(process: HistoryWriter, stream: Stream) -> None:
    first = session_at(stream, 0)
    write(process, started(first), judged(first, 2, at_s=3600), judged(first, 3, "cleared", at_s=30), ended(first, 60))
    assert [kind for kind, _ in told(stream)] == ["publish", "health.opened", "health.cleared", "unpublish"]


def test_concurrent_end_and_next_begin_are_both_told_in_order(process: HistoryWriter, stream: Stream) -> None:
    former = session_at(stream, 0)
    write(process, started(former))
    expected = [("publish", former)]
    for number in range(1, 8):
        session = session_at(stream, number)
        at_once(partial(write, process, started(session)), partial(sessions.end, session=former.pk, reason="replaced"))
        expected += [("unpublish", former), ("publish", session)]
        assert told(stream) == expected
        former = session


SEVERAL = 20
BLOCKED_S = 0.5
"""After so long whoever still runs waits for the test."""


@pytest.fixture(autouse=True)
def nobody_gives_way(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert "History waits for the database" not in caplog.text


def at(batch: Sequence[Operation]) -> None:
    """As a media process's history does."""
    with transaction.atomic():
        write_history(batch)


def streams_of(stream: Stream) -> list[Stream]:
    names = [f"cam-{number}" for number in range(SEVERAL)]
    return [Stream.objects.create(application=stream.application, name=name) for name in names]


@pytest.mark.parametrize("kind", ["unpublish", "health.opened"])
def test_concurrent_end_or_issue_follows_the_delayed_publish_event(
    process: HistoryWriter, stream: Stream, kind: str
) -> None:
    """Its end, or an issue, while the end of the one before lets it begin."""
    former, session = session_at(stream, 0), session_at(stream, 1)
    write(process, started(former), started(session))
    issue = partial(at, [judged(session, 2)])
    with transaction.atomic():
        assert sessions.end(session=former.pk, reason="replaced")
        end = partial(sessions.end, session=session.pk, reason="node_lost")
        other = in_thread(end if kind == "unpublish" else issue)
        wait([other], BLOCKED_S)
    other.result(20)
    assert told(stream) == [("publish", former), ("unpublish", former), ("publish", session), (kind, session)]


def test_concurrent_batches_of_streams_in_opposite_orders_are_both_written(stream: Stream) -> None:
    """As where encoders come back to another node: both write of all of their streams at the same moment."""
    streams = streams_of(stream)
    held = [session_at(each, 0) for each in streams]
    at([started(session) for session in held])
    issues = [judged(session, 2, at_s=1) for session in reversed(held)]
    at_once(partial(at, [ended(session, 2) for session in held]), partial(at, issues))
    for each, session in zip(streams, held, strict=True):
        assert sorted(told(each)[1:]) == [("health.opened", session), ("unpublish", session)]


def test_session_ended_by_its_node_and_a_sweep_at_once_has_one_unpublish(stream: Stream) -> None:
    held = [session_at(each, 0) for each in streams_of(stream)]
    at([started(session) for session in held])
    batch: list[Operation] = []
    for session in held:
        batch += [judged(session, 2, at_s=1), ended(session, 2)]

    def sweep() -> None:
        for session in held:
            sessions.end(session=session.pk, reason="node_lost")

    at_once(partial(at, batch), sweep)
    for session in held:
        assert [kind for kind, _ in told(session.stream)] in (  # type: ignore[arg-type]
            ["publish", "health.opened", "unpublish"],
            ["publish", "unpublish", "health.opened"],
            ["publish", "unpublish"],
        )
    assert not Lease.objects.exclude(session=None).exists()


def test_takeover_from_a_lost_node_succeeds_while_that_node_ends_the_session(stream: Stream, key: NewKey) -> None:
    lost = session_at(stream, 0)
    at([started(lost)])
    later = NOW + timedelta(minutes=1)
    request, peer = PublishRequest("live", key.secret, key.secret, True), Peer("192.0.2.9", "", "node-b", "")

    def take_over() -> None:
        admission.admit_publish(admission.Ask(uuid.uuid4(), request, peer), now=later, asked_at=later)

    with transaction.atomic():
        outbox.hold([stream.pk])
        other = in_thread(take_over)
        wait([other], BLOCKED_S)
        assert sessions.end(session=lost.pk, reason="tcp_reset")
    other.result(20)
    assert told(stream) == [("publish", lost), ("unpublish", lost)]
    holder = Lease.objects.get().session
    assert holder is not None
    assert holder.address == "192.0.2.9"


def test_recording_recovery_while_its_node_returns_tells_recording_done(stream: Stream) -> None:
    session = session_at(stream, 0)
    at([started(session)])
    recording = Recording.objects.create(
        application=stream.application, stream=stream, session=session, name="cam1", file="live/gone.flv"
    )
    with transaction.atomic():
        outbox.hold([stream.pk])
        other = in_thread(partial(recordings.recover, recording, for_good=True))
        wait([other], BLOCKED_S)
        Recording.objects.filter(pk=recording.pk).update(size_bytes=1)
    other.result(20)
    assert told(stream)[-1][0] == "recording.done"


def issues(of: Sequence[Session], count: int, since: int) -> list[StatusEvent]:
    """In turn of each session, each opened and cleared."""
    rows: list[StatusEvent] = []
    for number in range(count):
        kind, session = ("opened", "cleared")[number // len(of) % 2], of[number % len(of)]
        rows.append(judged(session, since + number, kind, at_s=since + number))
    return rows


def statements(events: Sequence[StatusEvent]) -> list[str]:
    with transaction.atomic(), CaptureQueriesContext(connection) as asked:
        outbox.notify(events, outbox.hold_of({event.session_id for event in events}))
    return [each["sql"] for each in asked.captured_queries]


def test_a_hundred_issues_cost_as_many_statements_as_ten(stream: Stream) -> None:
    several = [session_at(each, 0) for each in streams_of(stream)[:5]]
    at([started(session) for session in several])
    few, many = issues(several, 10, since=10), issues(several, 100, since=200)
    assert len(statements(few)) == len(statements(many))
    assert OutboxEvent.objects.filter(kind="health.opened").count() == 55
    again = statements(many)
    assert len(again) < len(statements(issues(several, 10, since=500)))
    assert not any(sql.startswith("UPDATE") for sql in again), "nothing is new"
    assert OutboxEvent.objects.filter(kind="health.opened").count() == 60
    assert sum(StreamTold.objects.values_list("sequence", flat=True)) == OutboxEvent.objects.count()


def test_repeated_events_do_not_raise_the_streams_event_number(stream: Stream) -> None:
    session = hold(stream)
    for _ in range(2):
        at([started(session), judged(session, 2)])
    assert StreamTold.objects.get().sequence == 2
