"""Rows of recordings, by what is told of their files: by a session's application, and by its node's after that."""

import uuid
from itertools import permutations
from typing import Any

import pytest
from django.utils import timezone

from ingest.models import Recording, Session, Stream
from ingest.services import recordings

pytestmark = pytest.mark.both_forms

FILE = "live/cam1-20260102T030405Z.flv"


@pytest.fixture
def session(stream: Stream) -> uuid.UUID:
    return Session.objects.create(kind="publish", app="live", name="cam1", stream=stream, address="127.0.0.1").pk


def note(session: uuid.UUID, state: Any, size: int) -> None:
    recordings.note(
        session=session,
        at=timezone.now(),
        event={
            "type": "rtmp.record",
            "session_id": str(session),
            "stream_id": 1,
            "state": state,
            "mode": "record",
            "name": "cam1",
            "file": FILE,
            "began": 1767323045.0,
            "is_continued": False,
            "duration_ms": size,
            "size_bytes": size,
            "dropped_frames": 0,
            "code": "",
            "description": "",
        },
    )


@pytest.mark.parametrize("order", list(permutations(["started", "closed"])))
@pytest.mark.parametrize("size", [1000, 5000])
def test_the_end_counts_in_whatever_order_both_are_told(session: uuid.UUID, order: tuple[str, ...], size: int) -> None:
    sizes = {"started": 1000, "closed": size}
    for state in order:
        note(session, state, sizes[state])
    row = Recording.objects.get()
    assert (row.state, row.size_bytes) == ("complete", size)


def test_a_session_may_go_on_with_a_file_that_failed(session: uuid.UUID) -> None:
    for state, size in (("started", 1000), ("failed", 4000), ("started", 4100)):
        note(session, state, size)
    assert Recording.objects.get().state == "recording"


def test_another_session_may_go_on_with_a_file_that_was_closed(session: uuid.UUID, stream: Stream) -> None:
    other = Session.objects.create(kind="publish", app="live", name="cam1", stream=stream, address="127.0.0.1").pk
    note(session, "closed", 4000)
    note(other, "started", 4000)
    row = Recording.objects.get()
    assert (row.state, row.session_id) == ("recording", other)
