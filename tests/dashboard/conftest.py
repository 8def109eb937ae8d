"""Fixtures of the dashboard: users of each role, streams, and a node's figures in the live store."""

import csv
import io
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from channels.layers import channel_layers
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page
from pytest_django import Settings

from analytics.periods import Period
from analytics.reports import builder, subprocess_jobs
from analytics.scopes import Scope
from dashboard import access
from dashboard.models import Alert
from dashboard.streams.silences import Silences
from dashboard.system.watch import Watch, get_watch
from ingest import live_store
from ingest.contracts import StreamSnapshot
from ingest.live_store import get_livestore
from ingest.models import Application, AuditEntry, Node, Session, Stream
from ingest.services import installation
from ingest.services.audit import Actor
from tests import snapshots
from tests.browser import chromium, log_in, quiet
from tests.ingest.removing import meanwhile
from tests.server_process import ServerProcess, running
from tests.snapshots import figures

PASSWORD = "horse-battery-staple"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the state of other tests. The watch has no thread, and the start has found the installation valid."""
    monkeypatch.setattr(Watch, "start", lambda watch: None)
    monkeypatch.setattr(installation, "_checked", True)
    cache.clear()
    live_store._store = None
    channel_layers.backends.clear()
    get_watch.cache_clear()
    yield
    live_store._store = None
    cache.clear()


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """Stop Django's clock, so that no hour turns during a test. A row's default time is still the real one."""
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    return now


@pytest.fixture
def reports_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make reports in this process, as no other sees the rows of a test's transaction. tests/e2e has the real way."""

    def report(period: Period, scope: Scope, actor: Actor) -> int:
        return builder.make(period, scope, actor=actor).pk

    monkeypatch.setattr(subprocess_jobs, "report", report)


def make_user(*roles: str, name: str = "mira", **fields: Any) -> User:
    user = User.objects.create_user(name, password=PASSWORD, **fields)
    # A migration makes the groups, but a test with real transactions leaves an empty database to the next.
    user.groups.set(Group.objects.get_or_create(name=role)[0] for role in roles)
    return user


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def user_fixture(role: str, name: str, **fields: bool) -> Any:
    """Return a fixture: a client that is logged in as a user of the role."""

    @pytest.fixture
    def logged_in(db: None) -> Client:
        return client_of(make_user(role, name=name, **fields))

    return logged_in


viewer = user_fixture("viewer", "vera")
operator = user_fixture("operator", "omar")
analyst = user_fixture("analyst", "ana")
manager = user_fixture("key manager", "kim")
admin = user_fixture("admin", "ada")
boss = user_fixture("admin", "boss", is_superuser=True, is_staff=True)


@pytest.fixture
def lake(tmp_path: Path, settings: Settings) -> Path:
    settings.LAKE_DIR = tmp_path / "lake"
    return tmp_path / "lake"


@pytest.fixture
def stream(db: None) -> Stream:
    return make_stream("cam-1")


def make_stream(name: str, app: str = "live") -> Stream:
    application, _ = Application.objects.get_or_create(name=app)
    return Stream.objects.get_or_create(application=application, name=name)[0]


def make_session(stream: Stream, *, age_s: float = 60, ended_ago_s: float | None = None, **fields: Any) -> Session:
    now = timezone.now()
    ended_at = None if ended_ago_s is None else now - timedelta(seconds=ended_ago_s)
    row: dict[str, Any] = {"kind": "publish", "app": stream.application.name, "name": stream.name, "stream": stream}
    row |= {"node": Node.objects.get_or_create(name="n1")[0], "address": "192.0.2.7", "encoder": "OBS 30"}
    row |= {"started_at": now - timedelta(seconds=age_s), "ended_at": ended_at}
    return Session.objects.create(**row | fields)


def api_token(role: str = "viewer", **fields: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {access.create_token(name=f'{role}-script', role=role, **fields).secret}"}


def text_of(client: Client, url: str, **query: str) -> str:
    answer = client.get(url, query)
    assert answer.status_code == 200
    return answer.content.decode()


def lacks(page: str, *words: str) -> list[str]:
    """Return the words that the page does not have."""
    return [each for each in words if each not in page]


def audited(*fields: str) -> list[Any]:
    return list(AuditEntry.objects.order_by("pk").values_list(*fields, flat=len(fields) == 1))


def file_text(answer: Any) -> str:
    """Return the text of a file, which may be streamed."""

    async def joined() -> bytes:
        return b"".join([piece async for piece in answer])

    content: bytes = async_to_sync(joined)() if answer.streaming else answer.content
    return content.decode()


def csv_rows(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file_text(answer))))


def snapshot(stream: Stream, **fields: Any) -> StreamSnapshot:
    return snapshots.snapshot(stream.pk, **{"app": stream.application.name, "name": stream.name, **fields})


def put_node(*streams: Any, node: str = "n1", **fields: Any) -> None:
    """Put a node's figures and its streams' snapshots into the live store, as a node does each second."""
    async_to_sync(get_livestore().put_node)(figures(node, **fields), streams)


@pytest.fixture
def ends_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do the work of a node and of a worker while a deletion waits for them."""
    meanwhile(monkeypatch)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[ServerProcess, Page]]:
    """Start a server, and open its wall in Chromium, logged in. Any error of a page's scripts fails the test."""
    with running(tmp_path / "var") as server, chromium() as browser, quiet(browser.new_context()) as page:
        log_in(page, server)
        yield server, page


def is_silenced(stream: int, check: str, now: datetime | None = None) -> bool:
    """Return True if alerts leave out the check of the stream (a row id)."""
    alert = Alert(stream=Stream.objects.get(pk=stream), check_code=check)
    return Silences.load(now or timezone.now()).of(alert) is not None
