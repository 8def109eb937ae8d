"""Questions that wait together are answered together, each by itself; nothing is left of what came too late."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from ingest.consumers import admissions, decisions
from ingest.consumers.admissions import Batches
from ingest.consumers.decisions import READ, TooSlow
from tests.ingest.faults import held, limited

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


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    made.gate.set()


async def over(*tasks: "asyncio.Task[str]") -> Answers:
    found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
    return [one if isinstance(one, str | Exception) else RuntimeError(repr(one)) for one in found]


async def test_those_who_wait_are_asked_about_together(desk: Desk) -> None:
    first = await desk.busy()
    others = desk.ask("a", "b", "bad", "c")
    await asyncio.sleep(0)
    desk.gate.set()
    answers = await over(first, *others)
    assert desk.asked == [["first"], ["a", "b", "bad", "c"]]
    assert [answer for answer in answers if isinstance(answer, str)] == ["FIRST", "A", "B", "C"]
    assert isinstance(answers[3], KeyError)
    assert not desk.undone


async def test_a_batch_has_a_bound(desk: Desk) -> None:
    desk.batches.most = 3
    first = await desk.busy()
    others = desk.ask(*"abcdefg")
    await asyncio.sleep(0)
    desk.gate.set()
    assert await over(first, *others) == ["FIRST", *"ABCDEFG"]
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


async def test_what_fails_as_a_whole_fails_for_all_of_it(desk: Desk) -> None:
    desk.fails = OSError("gone")
    first = await desk.busy()
    others = desk.ask("a", "b")
    desk.gate.set()
    assert {type(answer) for answer in await over(first, *others)} == {OSError}
    desk.fails = None
    assert await over(*desk.ask("again")) == ["AGAIN"]


async def test_the_time_counts_from_the_batchs_beginning_and_what_was_decided_too_late_is_undone(desk: Desk) -> None:
    with limited(0.4):
        first = await desk.busy()
        assert isinstance((await over(first))[0], TooSlow)
        waits = desk.ask("a")  # It comes while nothing moves, and is answered once something does.
        desk.gate.set()
        assert await over(*waits) == ["A"]
    assert desk.undone == ["first"]


async def test_what_looks_before_it_commits_has_nothing_to_undo(desk: Desk) -> None:
    desk.late = decisions.raise_if_late
    with limited(0.4):
        first = await desk.busy()
        assert isinstance((await over(first))[0], TooSlow)
        desk.gate.set()
        assert await over(*desk.ask("a")) == ["A"]
    assert not desk.undone


async def test_who_waits_too_long_for_a_batch_is_refused_unasked(desk: Desk) -> None:
    with limited(0.4):
        first = await desk.busy()
        (second,) = desk.ask("a")
        assert [type(answer) for answer in await over(first, second)] == [TooSlow, TooSlow]
        desk.gate.set()
        assert await over(*desk.ask("b")) == ["B"]
    assert desk.asked == [["first"], ["b"]]


async def test_where_the_threads_hang_nothing_is_left(desk: Desk) -> None:
    with held(READ), limited(0.4):
        assert [type(answer) for answer in await over(*desk.ask("a", "b"))] == [TooSlow, TooSlow]
    assert await over(*desk.ask("c")) == ["C"]
    assert ["a", "b"] not in desk.asked


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


async def test_what_may_wait_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "MAX_UNDONE", 3)
    first = await desk.busy()
    others = desk.ask(*"abcde")
    assert {type(answer) for answer in await over(*others[3:])} == {TooSlow}
    desk.gate.set()
    assert await over(first, *others[:3]) == ["FIRST", "A", "B", "C"]


async def test_who_leaves_is_not_asked_about_or_undone(desk: Desk) -> None:
    first = await desk.busy()
    second, third = desk.ask("a", "b")
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    desk.gate.set()
    assert await over(third) == ["B"]
    assert desk.asked == [["first"], ["b"]]
    assert desk.undone == ["first"]


async def test_whenever_one_leaves_it_has_its_answer_or_that_is_undone(desk: Desk) -> None:
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


async def test_nobody_who_asks_for_players_takes_the_last_thread() -> None:
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
