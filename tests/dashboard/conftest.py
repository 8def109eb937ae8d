"""Fixtures of the dashboard: users of each role, streams, and a node's figures as it would put them."""

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
from dashboard.metrics import exposition
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
    """A process without memory of other tests, and without the thread that watches: it looks when it is asked. It has
    found the installation in order when it started.
    """
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
def nothing_scraped() -> Iterator[None]:
    """No answer of /metrics is kept."""
    exposition.cache_clear()
    yield
    exposition.cache_clear()


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """It stays the time that it is now: no second and no hour turns between what a test makes and what is said of it.
    (A row's default time alone is the real one.)
    """
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    return now


@pytest.fixture
def reports_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """By this process, which alone sees what a test's transaction wrote. Made by another: test_apart.py, tests/e2e."""

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
    """A client that such a user is logged in with."""

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
    return Stream.objects.create(application=application, name=name)


def make_session(stream: Stream, *, age_s: float = 60, ended_ago_s: float | None = None, **fields: Any) -> Session:
    now = timezone.now()
    return Session.objects.create(
        **{
            "kind": "publish",
            "app": stream.application.name,
            "name": stream.name,
            "stream": stream,
            "node": Node.objects.get_or_create(name="n1")[0],
            "address": "192.0.2.7",
            "encoder": "OBS 30",
            "started_at": now - timedelta(seconds=age_s),
            "ended_at": None if ended_ago_s is None else now - timedelta(seconds=ended_ago_s),
            **fields,
        }
    )


def api_token(role: str = "viewer", **fields: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {access.create_token(name=f'{role}-script', role=role, **fields).secret}"}


def text_of(client: Client, url: str, **query: str) -> str:
    answer = client.get(url, query)
    assert answer.status_code == 200
    return answer.content.decode()


def lacks(page: str, *words: str) -> list[str]:
    return [each for each in words if each not in page]


def audited(*fields: str) -> list[Any]:
    return list(AuditEntry.objects.order_by("pk").values_list(*fields, flat=len(fields) == 1))


def file_text(answer: Any) -> str:
    """The text of a file, also of one that comes in pieces."""

    async def joined() -> str:
        return b"".join([piece async for piece in answer]).decode()

    return async_to_sync(joined)() if answer.streaming else str(answer.content.decode())


def csv_rows(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file_text(answer))))


def snapshot(stream: Stream, **fields: Any) -> StreamSnapshot:
    """What a node says of it on air."""
    return snapshots.snapshot(stream.pk, **{"app": stream.application.name, "name": stream.name, **fields})


def put_node(*streams: Any, node: str = "n1", **fields: Any) -> None:
    """A node's figures and what it says of its streams, as it puts them each second."""
    async_to_sync(get_livestore().put_node)(figures(node, **fields), streams)


@pytest.fixture
def ends_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node and a worker run, as far as deletions wait for them."""
    meanwhile(monkeypatch)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[ServerProcess, Page]]:
    """A server of the test's own, and its wall in Chromium, logged in. It fails on any error of a page's scripts."""
    with running(tmp_path / "var") as server, chromium() as browser, quiet(browser.new_context()) as page:
        log_in(page, server)
        yield server, page


def is_silenced(stream: int, check: str, now: datetime | None = None) -> bool:
    """Whether nobody is notified of the stream's (row id) check, as alerts are asked for it."""
    alert = Alert(stream=Stream.objects.get(pk=stream), check_code=check)
    return Silences.load(now or timezone.now()).of(alert) is not None
