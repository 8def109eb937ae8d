"""Deleting streams and applications: what goes with them, what stays, and that nothing live goes unasked. Deletions
lose nothing before they are certain, wait for what goes on, and can be asked for again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ingest.models import (
    Application,
    AuditEntry,
    Lease,
    Node,
    OutboxEvent,
    Recording,
    Session,
    StatusEvent,
    Stream,
    StreamKey,
)
from ingest.services import actions as services_actions
from ingest.services import encoder_login, removal, roles, sessions
from ingest.services.audit import Actor
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from ingest.services.removal import InTheWay
from tests.ingest.clients import all_ended, go_live
from tests.ingest.control import listening
from tests.ingest.operators import member
from tests.ingest.removing import meanwhile, node_ends, worker_takes
from tests.ingest.ticks import until
from tests.rtmp_client import RtmpClient

MIRA = Actor("mira", None, "192.0.2.20")


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.RECORDINGS_DIR = tmp_path
    (tmp_path / "live").mkdir()
    return tmp_path


def record(stream: Stream, folder: Path, **fields: Any) -> Recording:
    """A recording of the stream, with a file."""
    file = f"live/{Recording.objects.count()}.flv"
    (folder / file).write_bytes(b"FLV")
    given = {"name": stream.name, "state": "complete", **fields}
    return Recording.objects.create(application=stream.application, stream=stream, file=file, **given)


def session_of(stream: Stream, kind: str = "publish", **fields: Any) -> Session:
    """A publisher's has the stream's key, if it has one."""
    node, _ = Node.objects.get_or_create(name="node-a")
    key = stream.keys.first() if kind == "publish" else None
    return Session.objects.create(kind=kind, app="live", name="cam1", stream=stream, key=key, node=node, **fields)


@pytest.fixture
def published(stream: Stream, key: NewKey) -> Stream:
    """A stream with a key that was published once: its lease stays for its fencing number."""
    ended = session_of(stream, ended_at=timezone.now())
    StatusEvent.objects.create(session=ended, sequence=1, kind="onstatus")
    Lease.objects.create(stream=stream, expires_at=timezone.now())
    return stream


def test_removal_plan_counts_what_goes_and_what_stays(published: Stream, folder: Path) -> None:
    for user in ("van-1", "van-2"):
        encoder_login.create(stream=published, user=user)
    published.report_plans.create(name="Each Monday", kind="weekly")
    published.mutes.create()
    record(published, folder)
    plan = removal.of_streams(Stream.objects.filter(pk=published.pk))
    assert {name: count for name, count in plan.as_dict()["goes"].items() if count} == {
        "keys": 1,
        "logins": 2,
        "report_plans": 1,
        "mutes": 1,
    }
    assert plan.as_dict()["stays"] == {"recordings": 1, "sessions": 1}
    goes, _, stays = plan.summary.partition(" What stays: ")
    assert all(part in goes for part in ("1 stream key", "2 encoder log-ins", "1 report plan", "1 mute"))
    assert "health" not in goes
    assert stays == "1 recording, 1 session."
    whole = removal.of_applications(Application.objects.all()).as_dict()
    assert (whole["goes"]["streams"], whole["goes"]["recordings"], whole["goes"]["keys"]) == (1, 1, 1)
    assert whole["stays"] == {"sessions": 1}


@pytest.mark.both_forms
def test_history_and_recordings_outlive_their_stream(published: Stream, folder: Path) -> None:
    recording = record(published, folder)
    removal.delete_stream(MIRA, published)
    assert not Stream.objects.exists()
    assert not StreamKey.objects.exists()
    session = Session.objects.get()
    assert (session.stream, session.app, session.name) == (None, "live", "cam1")
    assert StatusEvent.objects.get().session == session
    recording.refresh_from_db()
    assert recording.stream is None
    assert (folder / recording.file).exists()
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.target) == ("mira", "stream.delete", "live/cam1")
    assert entry.detail["goes"]["keys"] == 1


def test_recordings_go_with_their_stream_if_that_is_said(published: Stream, folder: Path) -> None:
    recording = record(published, folder)
    removal.delete_stream(MIRA, published, with_recordings=True)
    assert not Recording.objects.exists()
    assert not (folder / recording.file).exists()
    assert set(AuditEntry.objects.values_list("action", flat=True)) == {"stream.delete", "recording.delete"}


def test_a_recording_that_can_not_go_keeps_its_stream(published: Stream, folder: Path) -> None:
    record(published, folder, state="recording")
    with pytest.raises(InTheWay, match=r"live/cam1 stays\. It is being recorded"):
        removal.delete_stream(MIRA, published, with_recordings=True)
    assert Stream.objects.exists()


@pytest.mark.both_forms
def test_an_application_goes_with_its_streams_and_files(
    published: Stream, folder: Path, django_capture_on_commit_callbacks: Any
) -> None:
    recording = record(published, folder)
    with django_capture_on_commit_callbacks(execute=True):
        removal.delete_application(MIRA, published.application)
    assert not Application.objects.exists()
    assert not Stream.objects.exists()
    assert not (folder / recording.file).exists()
    assert Session.objects.get().name == "cam1"
    assert AuditEntry.objects.get().action == "application.delete"


def of_stream(stream: Stream, force: bool = False) -> None:
    removal.delete_stream(MIRA, stream, force=force)


def of_application(stream: Stream, force: bool = False) -> None:
    removal.delete_application(MIRA, stream.application, force=force)


@pytest.mark.stores
@pytest.mark.parametrize("delete", [of_stream, of_application])
def test_live_stream_or_application_is_deleted_only_by_force(
    published: Stream, delete: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ = [session_of(published), session_of(published, kind="play")]
    with pytest.raises(InTheWay, match="is live: 1 publishing, 1 playing"):
        delete(published, False)
    assert sessions.due_to_end(node="node-a", now=timezone.now()) == []
    due: list[tuple[object, str]] = []
    meanwhile(
        monkeypatch,
        lambda: due.extend(sessions.due_to_end(node="node-a", now=timezone.now())),
        lambda: refused.append(Stream.objects.filter(enabled=True, application__enabled=True).exists()),
        node_ends,
    )
    refused: list[bool] = []
    delete(published, True)
    assert dict(due) == {session.pk: "kicked" for session in open_}
    assert True not in refused, "nobody begins meanwhile"
    open_[0].refresh_from_db()
    assert open_[0].end_description.endswith("was deleted by mira.")
    assert open_[0].stream is None


@pytest.mark.both_forms
@pytest.mark.parametrize("delete", [of_stream, of_application])
def test_a_node_that_looks_while_it_is_being_disabled_finds_the_deletion_as_the_reason(
    published: Stream, delete: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ = [session_of(published), session_of(published, kind="play")]
    due: list[dict[object, str]] = []

    def look(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        answer = execute(sql, *rest)
        if sql.startswith(('UPDATE "ingest_stream"', 'UPDATE "ingest_application"')):
            due.append(dict(sessions.due_to_end(node="node-a", now=timezone.now())))
        return answer

    meanwhile(monkeypatch, node_ends)
    with connection.execute_wrapper(look):
        delete(published, True)
    assert due[0] == {session.pk: "kicked" for session in open_}


def delete_it(stream: Stream) -> None:
    removal.delete_stream(MIRA, stream, force=True)


@asynccontextmanager
async def worker() -> AsyncIterator[None]:
    async def run() -> None:
        while True:
            await sync_to_async(worker_takes, thread_sensitive=False)()
            await asyncio.sleep(0.1)

    running = asyncio.create_task(run())
    yield
    running.cancel()


def disable_it(stream: Stream) -> None:
    services_actions.set_enabled(MIRA, stream, False)


def disable_all(stream: Stream) -> None:
    services_actions.set_enabled(MIRA, stream.application, False)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("act", "reason"), [(delete_it, "kicked"), (disable_it, "key_revoked"), (disable_all, "key_revoked")]
)
async def test_live_encoder_is_ended_when_its_stream_is_deleted_or_disabled(
    process: HistoryWriter,
    key: NewKey,
    act: Callable[[Stream], None],
    reason: str,
) -> None:
    async with listening() as port, RtmpClient(port=port) as encoder, worker():
        await go_live(encoder, key.secret)
        await sync_to_async(act)(key.key.stream)
        await encoder.wait_closed(timeout_s=10)
        await until(all_ended)
    session = await Session.objects.aget()
    assert session.end_reason == reason
    assert (session.stream_id is None) is (act is delete_it)


def page_of(row: Stream | Application) -> str:
    return reverse(f"admin:ingest_{row._meta.model_name}_delete", args=[row.pk])


def delete_on_its_page(client: Client, row: Stream | Application) -> Any:
    return client.post(page_of(row), {"post": "yes"})


def delete_in_the_list(client: Client, row: Stream | Application) -> Any:
    chosen = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    return client.post(reverse(f"admin:ingest_{row._meta.model_name}_changelist"), chosen)


@pytest.fixture(params=["stream", "application"])
def row(request: pytest.FixtureRequest, published: Stream) -> Stream | Application:
    return published if request.param == "stream" else published.application


WAYS = [delete_on_its_page, delete_in_the_list]


@pytest.mark.both_forms
@pytest.mark.parametrize("way", WAYS)
def test_admin_deletes_a_formerly_published_stream_or_application(
    published: Stream, row: Stream | Application, way: Callable[..., Any]
) -> None:
    """By the role admin too, which may not delete plans of reports by themselves."""
    published.report_plans.create(name="Each Monday", kind="weekly")
    client = member(roles.ADMIN)
    page = client.get(page_of(row)).content.decode()
    assert "With it go: " in page
    assert "1 stream key" in page
    assert "1 session." in page
    assert way(client, row).status_code == 302
    assert not type(row)._default_manager.filter(pk=row.pk).exists()
    assert [entry.action for entry in AuditEntry.objects.all()] == [f"{row._meta.model_name}.delete"]


@pytest.mark.parametrize("way", WAYS)
def test_admin_refuses_to_delete_a_live_stream_or_application(
    admin_client: Client, published: Stream, row: Stream | Application, way: Callable[..., Any]
) -> None:
    session_of(published)
    assert f"{row} is live: 1 publishing, 0 playing." in admin_client.get(page_of(row)).content.decode()
    answer = way(admin_client, row)
    assert answer.status_code == 200
    assert "is live: 1 publishing, 0 playing." in answer.content.decode()
    assert Stream.objects.exists()
    assert not AuditEntry.objects.exists()


def test_user_without_delete_permission_cannot_delete_a_stream(published: Stream) -> None:
    client = member(roles.KEY_MANAGER)
    assert client.get(page_of(published)).status_code == 403
    assert delete_on_its_page(client, published).status_code == 403
    delete_in_the_list(client, published)
    assert Stream.objects.exists()


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
def test_no_recording_is_deleted_while_the_last_one_is_being_written(
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


@pytest.mark.stores
def test_undeletable_recording_is_found_before_any_other_is_deleted(published: Stream, folder: Path) -> None:
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
def test_stream_deletion_waits_for_its_outbox_events_to_be_taken(
    published: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.stores
@pytest.mark.parametrize("delete", [of_stream, of_application])
def test_a_long_history_lets_go_in_pieces_and_goes_on_where_it_stopped(
    published: Stream, delete: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch)
    kept = Session.objects.get()
    Session.objects.bulk_create(
        Session(kind="publish", app="live", name="cam1", stream=published, key=kept.key, ended_at=timezone.now())
        for _ in range(300)
    )
    with monkeypatch.context() as patched:
        patched.setattr(removal, "RUN_S", 0.0)
        with pytest.raises(InTheWay, match="long history"):
            delete(published)
    assert Stream.objects.exists()
    with CaptureQueriesContext(connection) as asked:
        delete(published)
    for field in ("stream_id", "key_id"):
        changed = [each for each in asked if f'"ingest_session" SET "{field}" = NULL' in each["sql"]]
        assert len(changed) >= 2
    assert not Stream.objects.exists()
    assert Session.objects.filter(stream=None, key=None).count() == 301


@pytest.mark.both_forms
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", WAYS)
def test_the_admin_waits_for_players_outside_of_any_transaction(
    admin_client: Client, published: Stream, row: Stream | Application, way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_of(published, kind="play")
    looks = meanwhile(monkeypatch, node_ends)
    assert way(admin_client, row).status_code == 302
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
