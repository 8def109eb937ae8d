"""Files that people take away: each comes in pieces that leave the event loop free."""

import asyncio
import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.asgi import get_asgi_application
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from analytics.models import Grain, Rollup
from dashboard.lists import PIECE, csv_answer, file_answer
from dashboard.streams import measurements
from ingest.models import AuditEntry, Session, StatusEvent, Stream
from ingest.telemetry.series import COUNTERS, GAUGES, Series
from tests.analytics.rollups import EMPTY
from tests.dashboard.conftest import client_of, file_text, make_session, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]

ROWS = 1500


def create_rows(path: str, session: Session) -> None:
    """Create the rows that the file at this path contains."""
    begun = timezone.now().replace(minute=0, second=0, microsecond=0)
    words = "x" * 100
    stream: dict[str, Any] = {"app": "live", "name": "cam-1"}
    hour: dict[str, Any] = {**stream, "grain": Grain.HOUR, "metric_version": 1, **EMPTY}
    makers: dict[str, Callable[[int], Model]] = {
        "/sessions/export": lambda row: Session(
            kind="publish", started_at=begun, address=str(row), end_description=words, **stream
        ),
        "/events": lambda row: StatusEvent(session=session, sequence=row, at=begun, kind="onstatus", description=words),
        "/audit/": lambda _: AuditEntry(at=begun, actor="mira", action="key.change", target=words),
        "/rollups": lambda row: Rollup(start=begun - timedelta(hours=row), **hour),
    }
    for part, make in makers.items():
        if part in path:
            rows = [make(row) for row in range(ROWS)]
            type(rows[0])._default_manager.bulk_create(rows)


@pytest.fixture
def series(monkeypatch: pytest.MonkeyPatch) -> None:
    series = Series(step_s=0.0)
    series.at = [float(row) for row in range(ROWS)]
    series.health = ["good"] * ROWS
    series.values = {name: [1.0] * ROWS for name in (*GAUGES, *COUNTERS)}
    monkeypatch.setattr(measurements, "samples", lambda *args, **options: series)


PATHS = (
    pytest.param("/sessions/export.csv", marks=pytest.mark.both_forms),
    "/sessions/export.json",
    "/sessions/{session}/samples.csv",
    "/api/v1/sessions/{session}/samples?format=csv",
    "/api/v1/sessions/{session}/events?format=csv",
    "/audit/export?format=csv",
    pytest.param("/audit/export?format=json", marks=pytest.mark.both_forms),
    "/analytics/rollups.csv?stream=live/cam-1&range=90d&grain=hour",
    "/analytics/rollups.json?stream=live/cam-1&range=90d&grain=hour",
)


async def sent(path: str, client: Client) -> list[tuple[bytes, int]]:
    """Return each message of the body with the number of callbacks that had run when it was sent.

    Each message schedules one callback, so the number only grows if the event loop was free between two messages.
    """
    path, _, query = path.partition("?")
    callbacks = 0
    messages: list[tuple[bytes, int]] = []

    def count() -> None:
        nonlocal callbacks
        callbacks += 1

    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        return asked.pop() if asked else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message.get("body"):
            messages.append((message["body"], callbacks))
            asyncio.get_running_loop().call_soon(count)
        if message["type"] == "http.response.start":
            assert message["status"] == 200

    cookie = f"sessionid={client.cookies['sessionid'].value}".encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost"), (b"cookie", cookie), (b"accept", b"*/*")],
        "server": ("localhost", 80),
        "client": ("192.0.2.1", 4000),
    }
    await get_asgi_application()(scope, receive, send)
    return messages


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", PATHS)
def test_a_file_comes_in_pieces_between_which_the_event_loop_is_free(path: str, stream: Stream, series: None) -> None:
    session = make_session(stream)
    create_rows(path, session)
    boss = client_of(make_user("admin", name="bo"))
    messages = async_to_sync(sent)(path.format(session=session.pk), boss)
    text = b"".join(message for message, _ in messages).decode()
    rows = json.loads(text)["items"] if "json" in path else list(csv.DictReader(io.StringIO(text)))
    assert len(rows) >= ROWS - 1
    assert 2 <= len(messages) <= len(text) / PIECE + 1
    callbacks = [callback for _, callback in messages]
    assert all(later > earlier for earlier, later in pairwise(callbacks)), callbacks


def test_rows_are_read_as_they_are_sent() -> None:
    taken = 0

    def rows() -> Iterator[list[Any]]:
        nonlocal taken
        for taken in range(100_000):
            yield [taken, "x" * 100]

    async def first() -> None:
        answer: Any = csv_answer("x", ["number", "text"], rows())
        pieces = aiter(answer)
        assert len(await anext(pieces)) >= PIECE
        assert taken < 1000
        answer.close()
        assert [piece async for piece in pieces] == [], "of a file that nobody waits for, no more is read"

    async_to_sync(first)()


def test_export_without_rows_is_a_valid_empty_file() -> None:
    assert file_text(csv_answer("x", ["a", "b"], [])) == "a,b\r\n"
    assert json.loads(file_text(file_answer("x", "json", [], []))) == {"items": [], "count": 0}


FORMULAS = ("=1+1", "+1", "-1", "@x", "\tx", "\rx", "\nx", " =1", "\ufeff=1", "\u200b\u202e=1", "\xa0-1")
WIDE = ("＝1+1", "＋1", "－1", "＠x", "﹦1", "\u22121", "\ufeff＝1")
TEXTS = ("cam-1", "a=1", "1-1", "名前", "'=1", "", " ", "\ufeff", "(=1)", "🎥")


@pytest.mark.parametrize(
    ("text", "shown"), [*((text, f"'{text}") for text in (*FORMULAS, *WIDE)), *((text, text) for text in TEXTS)]
)
def test_no_text_is_a_formula_to_a_spreadsheet_and_others_stay(text: str, shown: str) -> None:
    answer = file_text(csv_answer("x", ["a", "b"], [[text, 1]]))
    assert list(csv.reader(io.StringIO(answer, newline="")))[1][0] == shown
