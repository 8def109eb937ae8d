"""A prepared query answers as the same query made anew, whatever is asked and by whom."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections
from django.db.models import CharField, Count, DateTimeField, Exists, Max, OuterRef, Q, QuerySet, UUIDField, Value
from django.db.models.sql.compiler import SQLCompiler

from ingest.models import Ban, HealthOverride, Node, Session, Stream
from ingest.services import bans, health_rules, nodes, sessions
from ingest.services.bans import get_guard
from ingest.services.sql import Given, Prepared

pytestmark = pytest.mark.both_forms

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NODES = ("node-a", "node-b", "it's 100 %s")


@pytest.fixture
def several(stream: Stream) -> list[Session]:
    made = []
    for number, name in enumerate(NODES * 3):
        node, _ = Node.objects.get_or_create(name=name)
        began = NOW + timedelta(microseconds=number)
        made.append(
            Session.objects.create(kind="play", app="live", name="a", stream=stream, node=node, started_at=began)
        )
    return made


def of_node(node: Any, since: Any) -> "QuerySet[Session, Any]":
    found = Session.objects.filter(Q(node__name=node) & (Q(started_at__gte=since) | Q(stop_requested="kicked")))
    return found.order_by("started_at").values_list("pk", "started_at", "is_test", "summary", "node__name")


def test_it_answers_each_question_with_its_own_values(several: list[Session]) -> None:
    prepared = Prepared(lambda: of_node(Given("node", CharField()), Given("since", DateTimeField())))
    Session.objects.filter(pk=several[0].pk).update(stop_requested="kicked", summary={"duration_ms": 1})
    for node in (*NODES, "nobody"):
        for number in range(10):
            since = NOW + timedelta(microseconds=number)
            assert prepared.ask(node=node, since=since) == list(of_node(node, since))


def test_one_value_may_stand_in_several_places(several: list[Session]) -> None:
    given = Given("at", DateTimeField())
    prepared = Prepared(lambda: Session.objects.filter(started_at__gte=given, started_at__lte=given).values_list("pk"))
    assert [prepared.ask(at=each.started_at) for each in several] == [[(each.pk,)] for each in several]


def test_a_value_within_an_inner_query(several: list[Session]) -> None:
    def build(session: Any) -> "QuerySet[Node, Any]":
        here = Session.objects.filter(node=OuterRef("pk"), pk=session)
        return Node.objects.filter(Exists(here)).values_list("name")

    prepared = Prepared(lambda: build(Given("session", UUIDField())))
    for each in several:
        assert prepared.ask(session=each.pk) == list(build(each.pk))


def test_a_count_of_nothing_is_a_row(db: None) -> None:
    counted = Ban.objects.order_by().values(of_all=Value(1)).annotate(count=Count("pk"), latest=Max("until"))
    assert Prepared(lambda: counted.values_list("count", "latest")).ask() == [(0, None)]


@pytest.mark.django_db(transaction=True)
def test_it_is_put_together_once_and_any_thread_may_ask(several: list[Session]) -> None:
    built: list[int] = []

    def build() -> "QuerySet[Session, Any]":
        built.append(threading.get_ident())
        return of_node(Given("node", CharField()), Given("since", DateTimeField()))

    prepared = Prepared(build)
    expected = [list(of_node(node, NOW)) for node in NODES]

    def ask(node: str) -> list[tuple[Any, ...]]:
        try:
            return prepared.ask(node=node, since=NOW)
        finally:
            connections["default"].close()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, NODES * 4)) == expected * 4
    assert len(built) == 1


def test_what_a_node_asks_each_second_is_not_put_together_again(
    several: list[Session], stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = bans.tell_guard(get_guard(), now=NOW)

    def ask(node: str) -> tuple[Any, ...]:
        assert bans.tell_guard(get_guard(), now=NOW, before=mark) == mark
        return sessions.due_to_end(node=node, now=NOW), health_rules.rules_on(node=node), nodes.drain(name=node)

    assert ask("node-a") == ([], {}, None)
    kicked = several[0]
    Session.objects.filter(pk=kicked.pk).update(stop_requested="kicked", kind="publish")
    HealthOverride.objects.create(stream=stream, check_code="no_audio", enabled=False)
    Node.objects.filter(name="node-a").update(drain_requested_at=NOW, drain_grace_s=7)
    put_together: list[str] = []
    as_sql = SQLCompiler.as_sql

    def counted(self: SQLCompiler, *args: Any, **kwargs: Any) -> Any:
        put_together.append(str(self.query.model))
        return as_sql(self, *args, **kwargs)

    monkeypatch.setattr(SQLCompiler, "as_sql", counted)
    rules = {"no_audio": {"enabled": False, "warning": None, "bad": None, "hold_s": None}}
    assert ask("node-a") == ([(kicked.pk, "kicked")], {stream.pk: rules}, nodes.Drain(NOW, 7))
    assert ask("node-b") == ([], {}, None)
    assert put_together == []
