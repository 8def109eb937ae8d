"""Who is told of a stream hears of one publisher at a time, in order, and of each event by a number that grows."""

from datetime import timedelta
from functools import partial

import pytest

from ingest.models import OutboxEvent, Session, Stream
from ingest.services import sessions
from ingest.services.history import EndRow
from ingest.services.history_writer import HistoryWriter
from tests.ingest.control import TOTALS
from tests.ingest.simultaneous import at_once
from tests.ingest.test_outbox import NOW, judged, make_session, started, write

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_forms]


def session_at(stream: Stream, seconds: float) -> Session:
    made = make_session(stream)
    made.started_at = NOW + timedelta(seconds=seconds)
    made.save()
    return made


def ended(session: Session, seconds: float) -> EndRow:
    return EndRow(session.pk, "replaced", "Taken over.", NOW + timedelta(seconds=seconds), TOTALS)


def told(stream: Stream) -> list[tuple[str, Session | None]]:
    """In the order of the numbers, which have no gaps, and in the order in which they are taken."""
    events = list(OutboxEvent.objects.filter(stream=stream).exclude(sequence=None).order_by("sequence"))
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert [event.payload["sequence"] for event in events] == [event.sequence for event in events]
    assert [event.at for event in events] == sorted(event.at for event in events)
    return [(event.kind, event.session) for event in events]


def test_a_begin_waits_for_the_end_of_the_one_before(process: HistoryWriter, stream: Stream) -> None:
    first, second = session_at(stream, 0), session_at(stream, 5)
    write(process, started(first), started(second))
    assert told(stream) == [("publish", first)]
    write(process, ended(first, 6))
    assert told(stream) == [("publish", first), ("unpublish", first), ("publish", second)]
    begin = OutboxEvent.objects.get(session=second)
    assert begin.payload["at"] == "2026-03-01T12:00:05Z", "when it began, not when that could be told"
    write(process, ended(second, 9))
    assert told(stream)[-1] == ("unpublish", second)


def test_several_that_took_over_from_one_another_come_one_by_one(process: HistoryWriter, stream: Stream) -> None:
    first, second, third = (session_at(stream, seconds) for seconds in (0, 1, 2))
    write(process, started(first), started(third), started(second), ended(first, 3))
    assert told(stream) == [("publish", first), ("unpublish", first), ("publish", second)]
    write(process, ended(second, 4), ended(third, 5))
    assert told(stream)[3:] == [("unpublish", second), ("publish", third), ("unpublish", third)]


def test_one_that_ends_before_its_begin_could_be_told_never_was(process: HistoryWriter, stream: Stream) -> None:
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


def test_issues_of_one_whose_begin_waits_come_after_it(process: HistoryWriter, stream: Stream) -> None:
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


def test_each_stream_has_numbers_of_its_own_and_what_is_written_again_takes_none(
    process: HistoryWriter, stream: Stream
) -> None:
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


def test_an_end_and_the_next_begin_at_once_are_both_told(process: HistoryWriter, stream: Stream) -> None:
    former = session_at(stream, 0)
    write(process, started(former))
    expected = [("publish", former)]
    for number in range(1, 8):
        session = session_at(stream, number)
        at_once(partial(write, process, started(session)), partial(sessions.end, session=former.pk, reason="replaced"))
        expected += [("unpublish", former), ("publish", session)]
        assert told(stream) == expected
        former = session
