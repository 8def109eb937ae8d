"""Questions that wait together are answered together, each by itself, and nothing is left of what came too late; and a
prepared query answers as the same query made anew, whatever is asked and by whom."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.db.models import CharField, Count, DateTimeField, Exists, Max, OuterRef, Q, QuerySet, UUIDField, Value
from django.db.models.sql.compiler import SQLCompiler

from ingest.consumers import admissions, decisions
from ingest.consumers.admissions import Batches
from ingest.consumers.decisions import READ, TooSlow
from ingest.models import Ban, HealthOverride, Node, Session, Stream
from ingest.services import bans, health_rules, nodes, sessions
from ingest.services.bans import get_guard
from ingest.services.sql import Given, Prepared
from tests.ingest.admitting import NOW
from tests.ingest.faults import limited

pytestmark = pytest.mark.django_db(transaction=True)

Answers = list[str | Exception]


class Desk:
    """Answers with the question in capitals; a question that is an exception's name is refused. `gate`: what the work
    waits for."""

    def __init__(self, most: int = 64) -> None:
        self.asked: list[list[str]] = []
        self.undone: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.inside = threading.Event()
        self.late: Callable[[float], None] = lambda until: None
        self.fails: Exception | None = None
        self.batches: Batches[str, str] = Batches(self.work, executor=READ, undo=self.undo, most=most)

    def work(self, questions: Sequence[str], until: float) -> Answers:
        self.asked.append(list(questions))
        self.inside.set()
        assert self.gate.wait(20)
        self.late(until)
        if self.fails is not None:
            raise self.fails
        return [KeyError(question) if question == "bad" else question.upper() for question in questions]

    def undo(self, question: str, answer: str) -> None:
        assert answer == question.upper()
        self.undone.append(question)

    def ask(self, *questions: str) -> "list[asyncio.Task[str]]":
        return [asyncio.create_task(self.batches.ask(question)) for question in questions]

    async def busy(self) -> "asyncio.Task[str]":
        """With a first question, that waits for the gate."""
        self.gate.clear()
        self.inside.clear()
        (first,) = self.ask("first")
        await asyncio.to_thread(self.inside.wait, 5)
        return first

    async def after_busy(self, *questions: str) -> Answers:
        """What comes of the first and of these, which wait for it together."""
        first = await self.busy()
        others = self.ask(*questions)
        await asyncio.sleep(0)
        self.gate.set()
        return await over(first, *others)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    made.gate.set()


async def over(*tasks: "asyncio.Task[str]") -> Answers:
    found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
    return [one if isinstance(one, str | Exception) else RuntimeError(repr(one)) for one in found]


async def test_waiting_questions_are_answered_in_one_batch_each_by_itself(desk: Desk) -> None:
    answers = await desk.after_busy("a", "b", "bad", "c")
    assert desk.asked == [["first"], ["a", "b", "bad", "c"]]
    assert [answer for answer in answers if isinstance(answer, str)] == ["FIRST", "A", "B", "C"]
    assert isinstance(answers[3], KeyError)
    assert not desk.undone


async def test_a_batch_has_a_bound(desk: Desk) -> None:
    desk.batches.most = 3
    assert await desk.after_busy(*"abcdefg") == ["FIRST", *"ABCDEFG"]
    assert [len(batch) for batch in desk.asked] == [1, 3, 3, 1]


@pytest.mark.parametrize("most", [1, 3])
async def test_a_whole_batch_waits_for_no_more(desk: Desk, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(admissions, "GATHER_S", 60.0)
    desk.batches.most = most
    assert await over(*desk.ask("first")) == ["FIRST"]
    assert await over(*desk.ask(*"abcdef")) == [*"ABCDEF"]
    assert [len(batch) for batch in desk.asked[1:]] == [most] * (6 // most)


async def test_a_few_answers_come_in_each_turn_of_the_loop(desk: Desk) -> None:
    turns, at = [0], list[int]()

    async def count() -> None:
        while True:
            await asyncio.sleep(0)
            turns[0] += 1

    async def one(number: int) -> None:
        await desk.batches.ask(f"{number}")
        at.append(turns[0])

    first = await desk.busy()
    asking = [asyncio.create_task(one(number)) for number in range(64)]
    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    desk.gate.set()
    await over(first)
    await asyncio.wait_for(asyncio.gather(*asking), 10)
    counting.cancel()
    assert len(at) == 64
    assert max(Counter(at).values()) <= admissions.A_TURN
    assert at == sorted(at)


async def test_failing_batch_fails_all_its_questions_and_the_next_one_works(desk: Desk) -> None:
    desk.fails = OSError("gone")
    assert {type(answer) for answer in await desk.after_busy("a", "b")} == {OSError}
    desk.fails = None
    assert await over(*desk.ask("again")) == ["AGAIN"]


@pytest.mark.parametrize("looks", [False, True])
async def test_decision_past_the_deadline_of_its_batch_is_refused_and_undone(desk: Desk, looks: bool) -> None:
    """But for what looks before it commits."""
    if looks:
        desk.late = decisions.raise_if_late
    with limited(0.4):
        first = await desk.busy()
        assert isinstance((await over(first))[0], TooSlow)
        waits = desk.ask("a")  # It comes while nothing moves, and is answered once something does.
        desk.gate.set()
        assert await over(*waits) == ["A"]
    assert desk.undone == ([] if looks else ["first"])


async def test_question_waiting_too_long_for_a_batch_is_refused_undecided(desk: Desk) -> None:
    with limited(0.4):
        first = await desk.busy()
        (second,) = desk.ask("a")
        assert [type(answer) for answer in await over(first, second)] == [TooSlow, TooSlow]
        desk.gate.set()
        assert await over(*desk.ask("b")) == ["B"]
    assert desk.asked == [["first"], ["b"]]


async def test_a_queue_that_is_too_long_refuses_at_once(desk: Desk) -> None:
    """By how long the latest batches took; one that is shorter than a batch is always heard."""
    desk.batches.most = 2
    with limited(0.5):
        first = await desk.busy()
        await asyncio.sleep(0.4)  # So long this batch takes.
        desk.gate.set()
        await over(first)
        await desk.busy()
        heard = desk.ask(*"abcdefghij" * 5)
        await asyncio.sleep(0)
        refused = [task for task in heard if task.done()]
        assert 10 < len(refused) < 49
        assert {type(answer) for answer in await over(*refused)} == {TooSlow}
        desk.gate.set()
        await over(*heard)


async def test_number_of_waiting_questions_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "MAX_UNDONE", 3)
    first = await desk.busy()
    others = desk.ask(*"abcde")
    assert {type(answer) for answer in await over(*others[3:])} == {TooSlow}
    desk.gate.set()
    assert await over(first, *others[:3]) == ["FIRST", "A", "B", "C"]


async def test_cancelled_question_is_left_out_or_its_decision_is_undone(desk: Desk) -> None:
    first = await desk.busy()
    second, third = desk.ask("a", "b")
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    desk.gate.set()
    assert await over(third) == ["B"]
    assert desk.asked == [["first"], ["b"]]
    assert desk.undone == ["first"]


async def test_random_cancellation_leaves_each_decision_answered_or_undone(desk: Desk) -> None:
    chance = random.Random(1)
    tasks = []
    for number in range(300):
        (task,) = desk.ask(f"q{number}")
        tasks.append(task)
        await asyncio.sleep(chance.choice([0, 0, 0.001]))
        if chance.random() < 0.7:
            chance.choice(tasks[-20:]).cancel()
    answered = {answer.lower() for answer in await over(*tasks) if isinstance(answer, str)}
    assert await over(*desk.ask("last")) == ["LAST"]
    asked = [question for batch in desk.asked for question in batch]
    assert len(asked) == len(set(asked))
    assert len(desk.undone) == len(set(desk.undone))
    assert {*asked} - {"last"} == answered | {*desk.undone}
    assert not answered & {*desk.undone}
    assert answered


async def test_waiting_player_questions_leave_a_thread_for_publishers() -> None:
    """Publishers and connections go before them."""
    together: decisions.Together[int] = decisions.Together()
    gate, deadline = threading.Event(), asyncio.get_running_loop().time() + 20
    players = [
        asyncio.create_task(together.ask(number, lambda: int(gate.wait(20)), deadline))
        for number in range(decisions.READ_THREADS + 2)
    ]
    await asyncio.sleep(0)
    desk = Desk()
    assert await over(*desk.ask("publisher")) == ["PUBLISHER"]
    gate.set()
    assert await asyncio.gather(*players) == [1] * len(players)


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


@pytest.mark.stores
def test_prepared_query_answers_each_question_with_its_own_values(several: list[Session]) -> None:
    prepared = Prepared(lambda: of_node(Given("node", CharField()), Given("since", DateTimeField())))
    Session.objects.filter(pk=several[0].pk).update(stop_requested="kicked", summary={"duration_ms": 1})
    for node in (*NODES, "nobody"):
        for number in range(10):
            since = NOW + timedelta(microseconds=number)
            assert prepared.ask(node=node, since=since) == list(of_node(node, since))


@pytest.mark.stores
def test_prepared_query_takes_one_value_in_several_places(several: list[Session]) -> None:
    given = Given("at", DateTimeField())
    prepared = Prepared(lambda: Session.objects.filter(started_at__gte=given, started_at__lte=given).values_list("pk"))
    assert [prepared.ask(at=each.started_at) for each in several] == [[(each.pk,)] for each in several]


@pytest.mark.stores
def test_prepared_query_takes_a_value_within_a_subquery(several: list[Session]) -> None:
    def build(session: Any) -> "QuerySet[Node, Any]":
        here = Session.objects.filter(node=OuterRef("pk"), pk=session)
        return Node.objects.filter(Exists(here)).values_list("name")

    prepared = Prepared(lambda: build(Given("session", UUIDField())))
    for each in several:
        assert prepared.ask(session=each.pk) == list(build(each.pk))


@pytest.mark.stores
def test_prepared_count_of_no_rows_returns_one_row(db: None) -> None:
    counted = Ban.objects.order_by().values(of_all=Value(1)).annotate(count=Count("pk"), latest=Max("until"))
    assert Prepared(lambda: counted.values_list("count", "latest")).ask() == [(0, None)]


@pytest.mark.both_forms
def test_prepared_query_is_built_once_for_all_threads(several: list[Session]) -> None:
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


@pytest.mark.stores
def test_queries_a_node_repeats_each_second_are_not_compiled_again(
    several: list[Session], stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = bans.update_guard(get_guard(), now=NOW)

    def ask(node: str) -> tuple[Any, ...]:
        assert bans.update_guard(get_guard(), now=NOW, before=mark) == mark
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
