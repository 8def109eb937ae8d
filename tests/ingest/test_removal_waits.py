"""Deletions lose nothing before they are certain, wait for what goes on, and can be asked for again."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ingest.models import AuditEntry, OutboxEvent, Recording, Session, Stream
from ingest.services import removal
from ingest.services.removal import InTheWay
from tests.ingest.removing import meanwhile, node_ends, worker_takes
from tests.ingest.test_removal import MIRA, WAYS, record, session_of


@pytest.fixture
def recorded(published: Stream, folder: Path) -> tuple[Recording, Recording]:
    """What was recorded before, and what goes on."""
    return record(published, folder), record(published, folder, state="recording", session=session_of(published))


def acts_written() -> list[str]:
    return list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))


@pytest.mark.both_forms
def test_a_live_stream_goes_with_its_recordings_once_the_last_is_closed(
    published: Stream, recorded: tuple[Recording, Recording], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch)
    removal.delete_stream(MIRA, published, force=True, with_recordings=True)
    assert not Stream.objects.exists()
    assert not Recording.objects.exists()
    assert list(folder.rglob("*.flv")) == []
    assert acts_written() == ["recording.delete", "recording.delete", "stream.delete"]


@pytest.mark.both_forms
def test_while_the_last_is_written_none_of_its_recordings_goes(
    published: Stream, recorded: tuple[Recording, Recording], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "WAIT_S", 0.0)
    with pytest.raises(InTheWay, match="is live"):
        removal.delete_stream(MIRA, published, with_recordings=True)
    published.refresh_from_db()
    assert published.enabled
    with pytest.raises(InTheWay, match=r"is disabled, but one session has not ended, on node-a \(up\)\."):
        removal.delete_stream(MIRA, published, force=True, with_recordings=True)
    Session.objects.update(ended_at=timezone.now())
    Recording.objects.filter(pk=recorded[1].pk).update(session=None)
    with pytest.raises(InTheWay, match=r"live/cam1 stays\. It is being recorded"):
        removal.delete_stream(MIRA, published, force=True, with_recordings=True)
    assert Recording.objects.count() == len(list(folder.rglob("*.flv"))) == 2
    published.refresh_from_db()
    assert not published.enabled, "as was said"
    assert acts_written() == ["stream.disable"]


@pytest.mark.both_forms
def test_one_that_can_not_be_deleted_is_found_before_the_first_goes(published: Stream, folder: Path) -> None:
    record(published, folder)
    Recording.objects.create(
        application=published.application, stream=published, name="cam1", file="../elsewhere.flv", state="complete"
    )
    with pytest.raises(InTheWay, match="not in the folder of recordings"):
        removal.delete_stream(MIRA, published, with_recordings=True)
    assert Recording.objects.count() == 2
    published.refresh_from_db()
    assert published.enabled


@pytest.mark.both_forms
def test_what_happened_is_handed_over_first(published: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    event = OutboxEvent.objects.create(kind="unpublish", once="unpublish:1", stream=published, sequence=1)
    with monkeypatch.context() as patched:
        patched.setattr(removal, "WAIT_S", 0.0)
        with pytest.raises(InTheWay, match=r"one event waits .* See that a worker and the schedule run\. Then delete"):
            removal.delete_stream(MIRA, published)
    looks = meanwhile(monkeypatch, worker_takes)
    removal.delete_stream(MIRA, published)
    assert looks.nested
    event.refresh_from_db()
    assert (event.stream, event.taken_at is not None) == (None, True)


@pytest.mark.both_forms
@pytest.mark.parametrize("whole", [False, True])
def test_a_long_history_lets_go_in_pieces_and_goes_on_where_it_stopped(
    published: Stream, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete() -> None:
        if whole:
            removal.delete_application(MIRA, published.application)
        else:
            removal.delete_stream(MIRA, published)

    meanwhile(monkeypatch)
    kept = Session.objects.get()
    Session.objects.bulk_create(
        Session(kind="publish", app="live", name="cam1", stream=published, key=kept.key, ended_at=timezone.now())
        for _ in range(300)
    )
    with monkeypatch.context() as patched:
        patched.setattr(removal, "RUN_S", 0.0)
        with pytest.raises(InTheWay, match="long history"):
            delete()
    assert Stream.objects.exists()
    with CaptureQueriesContext(connection) as asked:
        delete()
    for field in ("stream_id", "key_id"):
        changed = [each for each in asked if f'"ingest_session" SET "{field}" = NULL' in each["sql"]]
        assert len(changed) >= 2
    assert not Stream.objects.exists()
    assert Session.objects.filter(stream=None, key=None).count() == 301


@pytest.mark.both_forms
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("which", ["stream", "application"])
def test_the_admin_waits_for_players_outside_of_any_transaction(
    admin_client: Client, published: Stream, which: str, way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_of(published, kind="play")
    looks = meanwhile(monkeypatch, node_ends)
    assert way(admin_client, published if which == "stream" else published.application).status_code == 302
    assert not Stream.objects.exists()
    assert looks.nested
    assert True not in looks.nested


@pytest.mark.both_forms
@pytest.mark.parametrize("way", WAYS)
def test_the_admin_says_what_is_not_over(
    admin_client: Client, published: Stream, way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_of(published, kind="play")
    monkeypatch.setattr(removal, "WAIT_S", 0.0)
    page = admin_client.get(way(admin_client, published).headers["Location"]).content.decode()
    assert "is disabled, but one session has not ended" in page
    assert "uccessfully" not in page
    assert Stream.objects.exists()
