"""Rows of recordings, by what is told of their files; what becomes of those that are old, too many, or replaced."""

import errno
import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from ingest.flv.recording import RecordingFile
from ingest.models import Node, Recording, Session, Stream
from ingest.mp4.heads import FOLDER, Heads, Version, head_path
from ingest.services import recordings
from ingest.services.recordings import GIB, RecordingProblem, Tidied
from tests.ingest.recordings.conftest import Make, files, flv
from tests.ingest.ticks import record_event

FILE = "live/cam1-20260102T030405Z.flv"


@pytest.fixture
def session(stream: Stream) -> uuid.UUID:
    return Session.objects.create(kind="publish", app="live", name="cam1", stream=stream, address="127.0.0.1").pk


def note(session: uuid.UUID, state: Any, size: int) -> None:
    event = record_event(str(session), state=state, file=FILE, began=1767323045.0, duration_ms=size, size_bytes=size)
    recordings.note(session=session, at=timezone.now(), event=event)


@pytest.mark.stores
@pytest.mark.parametrize("order", list(permutations(["started", "closed"])))
@pytest.mark.parametrize("size", [1000, 5000])
def test_row_is_complete_in_either_order_of_start_and_close_events(
    session: uuid.UUID, order: tuple[str, ...], size: int
) -> None:
    sizes = {"started": 1000, "closed": size}
    for state in order:
        note(session, state, sizes[state])
    row = Recording.objects.get()
    assert (row.state, row.size_bytes) == ("complete", size)


@pytest.mark.both_forms
def test_a_session_may_go_on_with_a_file_that_failed(session: uuid.UUID) -> None:
    for state, size in (("started", 1000), ("failed", 4000), ("started", 4100)):
        note(session, state, size)
    assert Recording.objects.get().state == "recording"


@pytest.mark.both_forms
def test_another_session_may_go_on_with_a_file_that_was_closed(session: uuid.UUID, stream: Stream) -> None:
    other = Session.objects.create(kind="publish", app="live", name="cam1", stream=stream, address="127.0.0.1").pk
    note(session, "closed", 4000)
    note(other, "started", 4000)
    row = Recording.objects.get()
    assert (row.state, row.session_id) == ("recording", other)


def tidy(days: int = 0, gib: int = 0, node: str | None = None) -> Tidied:
    return recordings.tidy(now=timezone.now(), days=days, gib=gib, node=node)


@contextmanager
def written_on(path: Path) -> Iterator[None]:
    path.write_bytes(flv(3))
    writer = RecordingFile.continuing(path)
    try:
        yield
    finally:
        writer.finish()


def left(folder: Path) -> set[str]:
    """The names; each has its file."""
    rows = list(Recording.objects.all())
    assert set(files(folder)) == {row.file for row in rows}
    return {row.name for row in rows}


@pytest.mark.both_forms
def test_tidy_deletes_recordings_older_than_the_limit(make: Make, folder: Path) -> None:
    make(name="new", days=9.9)
    make(name="old", days=10.1)
    make(name="kept", days=400, keep=True)
    make(name="running", days=400, state="recording")
    assert tidy(days=10) == Tidied(old=1)
    assert left(folder) == {"new", "kept", "running"}


@pytest.mark.both_forms
@pytest.mark.parametrize("way", ["recording", "application"])
@pytest.mark.django_db(transaction=True)
def test_cached_mp4_heads_are_deleted_with_their_recording(make: Make, folder: Path, way: str) -> None:
    row, other = make(), make()
    heads = Heads(folder, 1000, 10)
    for each in (row, other):
        heads.keep(folder / each.file, Version(1, 1), 1, b"a head of an MP4")
    if way == "recording":
        recordings.delete(row)
        assert [path.name for path in (folder / FOLDER).iterdir()] == [head_path(folder, folder / other.file).name]
    else:
        row.application.delete()
        assert not list((folder / FOLDER).iterdir())


def test_tidy_deletes_the_oldest_recordings_until_the_rest_fits(make: Make, folder: Path) -> None:
    for days, name in enumerate(("a", "b", "c", "d")):
        make(name=name, days=days, size=GIB)
    make(name="kept", days=9, size=GIB, keep=True)
    make(name="running", days=9, size=GIB, state="recording")
    assert tidy(gib=4) == Tidied(large=2)
    assert left(folder) == {"a", "b", "kept", "running"}


def test_tidy_without_limits_deletes_nothing(make: Make, folder: Path) -> None:
    make(name="old", days=4000, size=900 * GIB)
    assert tidy() == Tidied()
    assert left(folder) == {"old"}


@pytest.mark.both_forms
@pytest.mark.parametrize(("newer", "goes"), [("complete", True), ("recording", False), ("failed", False)])
def test_a_recording_stays_until_the_one_that_replaces_it_is_complete(
    make: Make, folder: Path, newer: str, goes: bool
) -> None:
    old = make(name="cam1", days=1)
    new = make(name="cam1", state=newer, replaces=True)
    assert tidy().superseded == goes
    assert set(Recording.objects.all()) == ({new} if goes else {old, new})
    assert len(list(folder.rglob("*.flv"))) == (1 if goes else 2)


def test_appended_recording_replaces_no_other(make: Make, folder: Path) -> None:
    rows = [make(name="cam1", days=1, replaces=True), make(name="cam1")]
    assert tidy() == Tidied()
    assert set(Recording.objects.all()) == set(rows)


@pytest.mark.both_forms
def test_tidy_of_a_node_leaves_recordings_of_other_nodes(make: Make, folder: Path) -> None:
    for name in ("mine", "theirs"):
        make(name=name, days=9, node=Node.objects.create(name=name))
    assert tidy(days=1, node="mine") == Tidied(old=1)
    assert left(folder) == {"theirs"}


def test_a_file_that_stays_keeps_its_row(make: Make, folder: Path) -> None:
    row = make(days=9)
    (folder / row.file).unlink()
    (folder / row.file).mkdir()  # What unlink refuses.
    assert tidy(days=1) == Tidied(failed=1)
    assert Recording.objects.filter(pk=row.pk).exists()


def test_running_recording_is_not_deleted(make: Make, folder: Path) -> None:
    row = make(state="recording")
    with pytest.raises(RecordingProblem, match="being recorded"):
        recordings.delete(row)
    assert left(folder) == {row.name}


def test_a_row_that_leads_out_of_the_folder_deletes_nothing(make: Make, folder: Path) -> None:
    victim = folder.parent / "victim"
    victim.write_text("mine")
    for file in ("../victim", str(victim), ""):
        Recording.objects.all().delete()
        row = make()
        Recording.objects.filter(pk=row.pk).update(file=file)
        with pytest.raises(RecordingProblem):
            recordings.delete(Recording.objects.get())
    assert victim.read_text() == "mine"


def test_recording_age_counts_from_its_start(make: Make) -> None:
    make(days=11, ended_at=timezone.now() - timedelta(days=9))
    assert tidy(days=10).old == 1


def test_recording_resumed_or_kept_after_listing_is_not_deleted(make: Make, folder: Path) -> None:
    """Hours of others may be deleted between the query and a row's turn."""
    appended, kept = make(name="a", days=9), make(name="b", days=9)
    Recording.objects.filter(pk=appended.pk).update(state="recording")
    Recording.objects.filter(pk=kept.pk).update(keep=True)
    for stale in (appended, kept):
        with pytest.raises(RecordingProblem):
            recordings.delete(stale, spare_kept=True)
    assert left(folder) == {"a", "b"}
    recordings.delete(kept)
    assert left(folder) == {"a"}


def test_a_file_with_a_writer_is_not_deleted_whatever_its_row_says(make: Make, folder: Path) -> None:
    row = make(name="a", days=9)
    with written_on(folder / row.file):
        assert tidy(days=1) == Tidied(failed=1)
        assert left(folder) == {"a"}
        assert Recording.objects.get().state == "complete"
    assert tidy(days=1) == Tidied(old=1)


def test_opening_a_recording_as_it_is_deleted_raises_file_not_found(
    make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = make(name="a")
    (folder / row.file).write_bytes(flv(3))
    lock = fcntl.flock

    def delete_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr("ingest.flv.recording.fcntl.flock", lock)
        recordings.delete(row)
        lock(descriptor, operation)

    monkeypatch.setattr("ingest.flv.recording.fcntl.flock", delete_first)
    with pytest.raises(FileNotFoundError):
        RecordingFile.continuing(folder / row.file)


@pytest.mark.both_forms
def test_running_recording_counts_with_its_current_file_size(make: Make, folder: Path) -> None:
    old, running = make(name="old", days=2, size=1000), make(name="running", state="recording", size=0)
    with (folder / running.file).open("wb") as stream:
        stream.truncate(GIB)
    assert tidy(gib=1) == Tidied(large=1)
    assert not Recording.objects.filter(pk=old.pk).exists()


@pytest.mark.both_forms
@pytest.mark.django_db(transaction=True)
def test_files_go_with_their_application_but_not_what_is_written(make: Make, folder: Path) -> None:
    rows = [make(name="a"), make(name="b", state="recording")]
    with written_on(folder / rows[1].file):
        rows[0].application.delete()
        assert files(folder) == [rows[1].file]


def test_recovery_waits_for_a_folder_that_is_not_there(make: Make, folder: Path) -> None:
    row = make(state="recording")
    away = folder.rename(folder.parent / "away")
    assert not recordings.recover(row)
    folder.mkdir()
    assert not recordings.recover(row)
    assert Recording.objects.get().state == "recording"
    folder.rmdir()
    away.rename(folder)
    (folder / row.file).write_bytes(flv(3))
    assert recordings.recover(row)
    assert Recording.objects.get().state == "complete"


def test_recovery_waits_for_a_disk_that_fails(make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = make(state="recording")
    (folder / row.file).write_bytes(flv(3, finished=False))

    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr("ingest.flv.recording.os.fsync", fails)
        assert not recordings.recover(row)
    assert Recording.objects.get().state == "recording"
    assert recordings.recover(row)
