"""Publishers that are admitted together get what each would get by itself, and leave the same rows."""

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from ingest.consumers import decisions
from ingest.models import Application, HealthOverride, Lease, Node, Session, Stream, StreamKey
from ingest.services import admission, keys, leases
from ingest.services.admission import Ask, DecideAlone, Grant, NotYet
from ingest.services.authorization import Peer, PublishRequest
from ingest.services.history_writer import HistoryWriter
from ingest.services.refusals import Refused
from tests.ingest.admitting import NOW, hold
from tests.ingest.control import connected, disconnect
from tests.ingest.faults import at_once, held, in_thread, until_queued

pytestmark = pytest.mark.stores

PEER = Peer(address="192.0.2.7", encoder="OBS", node="node-a", channel="specific.inmemory!abc")
SEEDS = 25
SEVERAL = 20


def ask(credential: str, *, app: str = "live", name: str = "", publish_type: str = "live") -> Ask:
    """`name`: a public name beside the key."""
    request = PublishRequest(app, name or "rk_…", credential, not name, publish_type)
    return Ask(uuid.uuid4(), request, PEER)


def nothing_known(session: uuid.UUID) -> leases.Standing:
    return "unknown"


def together(
    asks: Sequence[Ask],
    standing: Callable[[uuid.UUID], leases.Standing] = nothing_known,
    in_time: Callable[[], None] = lambda: None,
) -> list[Grant | Exception]:
    """What the queue before the database does: who is refused by reading alone is not asked about again."""
    checked = admission.check_group(asks, now=NOW)
    left = [one for one, answer in zip(asks, checked, strict=True) if answer is None]
    admitted = admission.admit_group(left, now=NOW, knowledge=leases.Knowledge(NOW, standing), in_time=in_time)
    answers = iter(admitted)
    return [next(answers) if answer is None else answer for answer in checked]


def singly(one: Ask) -> Grant | Exception:
    try:
        return admission.admit_publish(one, now=NOW, asked_at=NOW)
    except (Refused, NotYet) as answer:
        return answer


def rows_of(asks: Sequence[Ask]) -> dict[str, Any]:
    """What is there of these publishers."""
    sessions = Session.objects.filter(pk__in=[one.session for one in asks])
    streams = list(sessions.values_list("stream_id", flat=True))
    return {
        "sessions": sorted(map(str, sessions.order_by("pk").values())),
        "leases": sorted(map(str, Lease.objects.filter(stream__in=streams).values())),
        "keys": dict(StreamKey.objects.filter(stream__in=streams).values_list("pk", "last_used_at")),
    }


def told(answer: Grant | Exception) -> object:
    if isinstance(answer, Refused):
        return answer.reason, answer.code, answer.description, answer.stream, answer.key
    return type(answer) if isinstance(answer, Exception) else answer


@pytest.fixture
def live(db: None) -> Application:
    Application.objects.create(name="open", publish_policy="open", record="all")
    Application.objects.create(name="closed", enabled=False)
    Application.objects.create(name="asks", callback="publish")
    return Application.objects.create(name="live")


def stream_of(app: str, name: str, **fields: Any) -> Stream:
    return Stream.objects.create(application=Application.objects.get(name=app), name=name, **fields)


def key_of(app: str, name: str, **fields: Any) -> str:
    """The secret of a key of a new stream."""
    return keys.create(stream=stream_of(app, name), **fields).secret


@pytest.fixture
def situations(live: Application) -> Mapping[str, Callable[[], Ask]]:
    """{what is asked for: the ask}; those whose names begin with `apart` are not for groups."""
    Node.objects.create(name=PEER.node, process="this one")
    node = Node.objects.create(name="node-b", process="another")
    ordinary = {f"key {number}": partial(ask, key_of("live", f"cam{number}")) for number in range(4)}
    used = key_of("live", "used")
    stream = Stream.objects.get(name="used")
    Lease.objects.create(stream=stream, fencing=7, expires_at=NOW)
    HealthOverride.objects.create(stream=stream, check_code="fps_low", enabled=False)
    for minutes in (1, 2, 30):
        at = NOW - timedelta(minutes=minutes)
        Session.objects.create(kind="publish", app="live", name="used", stream=stream, started_at=at, ended_at=at)
    live_key = key_of("live", "live")
    hold(Stream.objects.get(name="live"), "node-b", expires_at=NOW + timedelta(seconds=9))
    stream_of("open", "there")
    Session.objects.create(kind="play", app="open", name="there", node=node, started_at=NOW)
    limited = key_of("live", "limited", max_kbps=4000, over_limit="close")
    resting = key_of("live", "resting", max_kbps=4000, over_limit="close")
    Session.objects.create(
        kind="publish",
        app="live",
        name="resting",
        key=StreamKey.objects.get(stream__name="resting"),
        started_at=NOW,
        ended_at=NOW - timedelta(seconds=1),
        end_reason="over_limit",
    )
    stream_of("live", "disabled", enabled=False)
    disabled = keys.create(stream=Stream.objects.get(name="disabled")).secret
    return {
        **ordinary,
        "used before": partial(ask, used),
        "by name and key": partial(ask, used, name="used"),
        "a limit": partial(ask, limited),
        "to be recorded": partial(ask, used, publish_type="record"),
        "an open one that is there": partial(ask, "there", app="open"),
        "nothing": partial(ask, ""),
        "an unknown key": partial(ask, keys.generate()),
        "the name alone": partial(ask, "used"),
        "an unknown application": partial(ask, used, app="nowhere"),
        "a disabled application": partial(ask, used, app="closed"),
        "another application's key": partial(ask, used, app="open", name="used"),
        "another stream's key": partial(ask, used, name="cam1"),
        "a disabled stream": partial(ask, disabled),
        "an expired key": partial(ask, key_of("live", "expired", expires_at=NOW - timedelta(days=1))),
        "another network": partial(ask, key_of("live", "elsewhere", allowed_networks=["198.51.100.0/24"])),
        "a key that rests": partial(ask, resting),
        "apart: live already": partial(ask, live_key),
        "apart: a test": partial(ask, key_of("live", "trial", test_only=True)),
        "apart: a stream to be made": partial(ask, "new", app="open"),
        "apart: a service is asked": partial(ask, key_of("asks", "asked")),
    }


def test_group_admission_decides_each_publish_as_single_admission_would(
    situations: Mapping[str, Callable[[], Ask]],
) -> None:
    for seed in range(SEEDS):
        chance = random.Random(seed)
        names = [chance.choice(list(situations)) for _ in range(chance.randint(1, 12))]
        asks = [situations[name]() for name in names]
        outcomes: dict[str, tuple[list[object], dict[str, Any]]] = {}
        with transaction.atomic():
            answers = together(asks)
            admitted = [one for one, answer in zip(asks, answers, strict=True) if isinstance(answer, Grant)]
            outcomes["together"] = (
                [told(answer) for answer in answers if type(answer) is not DecideAlone],
                rows_of(admitted),
            )
            transaction.set_rollback(True)
        with transaction.atomic():
            alone = [singly(one) for one in asks]
            paired = [own for own, answer in zip(alone, answers, strict=True) if type(answer) is not DecideAlone]
            outcomes["alone"] = [told(own) for own in paired], rows_of(admitted)
            transaction.set_rollback(True)
        assert outcomes["together"] == outcomes["alone"], names
        apart = [name for name, answer in zip(names, answers, strict=True) if type(answer) is DecideAlone]
        streams = {"by name and key": "used before", "to be recorded": "used before"}
        seen: set[str] = set()
        for name, answer in zip(names, answers, strict=True):
            again = streams.get(name, name) in seen
            seen.add(streams.get(name, name))
            if not isinstance(answer, Refused):
                assert (type(answer) is DecideAlone) == (name.startswith("apart") or again), (names, name)
        assert len(apart) < len(names) or all(name.startswith("apart") for name in apart)


def test_a_group_takes_as_many_statements_as_one(live: Application) -> None:
    secrets = [key_of("live", f"cam{number}") for number in range(SEVERAL + 2)]
    more = secrets[:5]
    together([ask(secrets.pop())])  # The node's row is there then.
    counts = []
    for several in (1, SEVERAL):
        asks = [ask(secrets.pop()) for _ in range(several)]
        with CaptureQueriesContext(connection) as queries:
            assert all(isinstance(answer, Grant) for answer in together(asks))
        counts.append(len(queries))
    assert counts[0] == counts[1]
    asks = [ask(secret) for secret in [*more, keys.generate()]]
    with CaptureQueriesContext(connection) as queries:
        admission.check_group(asks, now=NOW)
    assert len(queries) <= 3


def test_publish_after_an_ended_session_not_yet_written_is_granted(live: Application) -> None:
    """Though its end is still being written."""
    secret = key_of("live", "cam")
    (first,) = together([ask(secret)])
    assert isinstance(first, Grant)
    (second,) = together([ask(secret)], standing=lambda session: "ended" if session == first.session else "unknown")
    assert isinstance(second, Grant)
    assert (second.fencing, second.lost, second.replaced) == (2, None, None)
    assert Lease.objects.get().session_id == second.session


def test_group_admission_past_its_deadline_is_rolled_back(live: Application) -> None:
    secrets = [key_of("live", f"cam{number}") for number in range(3)]

    def too_late() -> None:
        assert Session.objects.count() == 3
        raise decisions.TooSlow

    with pytest.raises(decisions.TooSlow):
        together([ask(secret) for secret in secrets], in_time=too_late)
    assert not Session.objects.exists()
    assert not Lease.objects.exists()
    assert not StreamKey.objects.filter(last_used_at__isnull=False).exists()


@pytest.mark.django_db(transaction=True)
def test_unwritable_publish_sends_its_group_to_single_admission(live: Application) -> None:
    secrets = [key_of("live", f"cam{number}") for number in range(3)]
    asks = [ask(secret) for secret in secrets]
    Session.objects.create(pk=asks[1].session, kind="play", app="live", name="other")
    answers = together([*asks, ask(keys.generate())])
    assert [type(answer) for answer in answers] == [DecideAlone, DecideAlone, DecideAlone, Refused]
    assert not Lease.objects.exists()
    assert isinstance(singly(asks[0]), Grant)
    assert isinstance(singly(asks[2]), Grant)


@pytest.mark.django_db(transaction=True)
def test_two_nodes_admitting_the_same_streams_at_once_grant_each_once(live: Application) -> None:
    """In other orders. Of each stream one is admitted, and neither node gives way."""
    secrets = [key_of("live", f"cam{number}") for number in range(SEVERAL)]
    freed = Stream.objects.filter(pk__in=Stream.objects.order_by("pk").values("pk")[: SEVERAL // 2])
    Lease.objects.bulk_create(Lease(stream=stream, expires_at=NOW) for stream in freed)
    answers: list[Grant | Exception] = []
    asks = [[ask(secret) for secret in secrets], [ask(secret) for secret in reversed(secrets)]]
    at_once(*(partial(lambda those: answers.extend(together(those)), those) for those in asks))
    granted = [answer for answer in answers if isinstance(answer, Grant)]
    assert len({grant.labels["stream"] for grant in granted}) == len(granted)
    assert all(type(answer) is DecideAlone for answer in answers if not isinstance(answer, Grant))
    assert {grant.session for grant in granted} == set(Lease.objects.values_list("session_id", flat=True)) - {None}
    assert set(Session.objects.values_list("pk", flat=True)) == {grant.session for grant in granted}
    assert len(granted) == SEVERAL


@pytest.mark.django_db(transaction=True)
def test_locked_lease_holds_up_no_other_publish_of_its_group(live: Application) -> None:
    """PostgreSQL locks rows; with SQLite one writes at a time, and the group waits for the other."""
    secrets = [key_of("live", f"cam{number}") for number in range(3)]
    stream = Stream.objects.get(name="cam1")
    Lease.objects.create(stream=stream, expires_at=NOW)
    answers: list[Grant | Exception] = []
    with transaction.atomic():
        Lease.objects.filter(stream=stream).update(expires_at=NOW + timedelta(seconds=1))
        work = in_thread(lambda: answers.extend(together([ask(secret) for secret in secrets])))
        if connection.vendor == "postgresql":
            work.result(20)
    work.result(20)
    locked = DecideAlone if connection.vendor == "postgresql" else Grant
    assert [type(answer) for answer in answers] == [Grant, locked, Grant]


@pytest.mark.django_db(transaction=True)
async def test_encoders_that_wait_for_the_database_are_admitted_at_once(process: HistoryWriter, stream: Stream) -> None:
    """Each by its own answer; the moment that their rows have is that of their one transaction."""
    secrets = [await sync_to_async(key_of)("live", f"rush{number}") for number in range(SEVERAL)]
    encoders = await connected(SEVERAL + 1)
    with held(decisions.WRITE):
        first, *others = encoders
        await first.tell(first.publish_event(secrets[0]))
        await until_queued(decisions.WRITE, 1)
        for encoder, secret in zip(others, [*secrets[1:], "rk_nobody"], strict=True):
            await encoder.tell(encoder.publish_event(secret))
        assert (await encoders[-1].answer())["code"] == "NetStream.Publish.Denied"
    answers = [await encoder.answer() for encoder in encoders[:-1]]
    assert {answer["type"] for answer in answers} == {"rtmp.publish.accept"}
    assert len({answer["path"] for answer in answers}) == SEVERAL
    moments = [at async for at in Session.objects.order_by("started_at").values_list("started_at", flat=True)]
    assert len(moments) == SEVERAL
    assert len(set(moments)) == 2
    await disconnect(*encoders)
