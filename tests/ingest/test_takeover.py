"""When a stream is taken over from its publisher: told by time, on the database's rows alone."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from ingest.consumers.active import ACTIVE, ActiveSession, standing
from ingest.models import Application, Lease, Session, Stream
from ingest.services import admission, keys, leases, sessions
from ingest.services.admission import Grant, NotYet
from ingest.services.authorization import Peer, PublishRequest
from ingest.services.keys import NewKey
from ingest.services.refusals import Refused

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def publish(
    secret: str, now: float = 0.0, *, asked: float | None = None, address: str = "192.0.2.8", node: str = "node-b"
) -> Grant:
    """`asked`: when it asked first."""
    return admission.admit_publish(
        session=uuid.uuid4(),
        request=PublishRequest("live", secret, secret, True),
        peer=Peer(address=address, encoder="OBS", node=node, channel=""),
        now=at(now),
        asked_at=at(now if asked is None else asked),
    )


def again(secret: str, now: float, *, asked: float) -> float:
    """When the service says to ask again, in seconds after NOW."""
    with pytest.raises(NotYet) as caught:
        publish(secret, now, asked=asked)
    return (caught.value.at - NOW).total_seconds()


def is_refused(secret: str, now: float, *, asked: float | None = None, address: str = "192.0.2.8") -> bool:
    with pytest.raises(Refused) as caught:
        publish(secret, now, asked=asked, address=address)
    return caught.value.reason == "busy"


@pytest.fixture
def held(key: NewKey) -> Session:
    """The stream's publisher, with the key, on another node."""
    return Session.objects.get(pk=publish(key.secret, address="192.0.2.7", node="node-a").session)


def silent_since(seconds: float) -> None:
    session = Lease.objects.get().session_id
    assert session is not None
    leases.fell_silent(since={session: at(seconds)})


def renewed(seconds: float) -> None:
    Lease.objects.update(expires_at=at(seconds) + leases.TTL)


# --- The same key ---


@pytest.mark.both_forms
def test_a_silent_publisher_gives_way_to_its_own_key(held: Session, key: NewKey) -> None:
    silent_since(1)
    grant = publish(key.secret, 4.2)
    assert grant.replaced is not None
    assert (grant.replaced.session, grant.replaced.address) == (held.pk, "192.0.2.7")
    assert grant.replaced.why == "silent"
    assert grant.replaced.silent_s == pytest.approx(3.2)
    assert grant.lost is None
    lease = Lease.objects.get()
    assert (lease.session_id, lease.fencing, lease.silent_since) == (grant.session, 2, None)
    assert sessions.due_to_end(node="node-a", now=at(5)) == [(held.pk, "replaced")]
    assert leases.renew(node=held.node_id or 0, held=[(held.pk, 1)], now=at(5)) == {held.pk}
    assert sessions.end_reasons_of_lost(sessions={held.pk}) == [(held.pk, "replaced")]
    assert sessions.end(session=held.pk, reason="replaced", description="Said the server.")
    held.refresh_from_db()
    assert (held.end_reason, held.end_description) == ("replaced", "Taken over from 192.0.2.8 after 3.2 s of silence.")
    assert Lease.objects.get().session_id == grant.session, "the end of the old one frees nothing"


def test_an_encoder_that_is_back_too_early_waits_for_the_silence_to_be_long_enough(held: Session, key: NewKey) -> None:
    silent_since(1)
    assert again(key.secret, 3, asked=3) == 4
    assert publish(key.secret, 4, asked=3).replaced is not None


def test_an_encoder_that_is_back_before_the_silence_was_told_waits_for_it(held: Session, key: NewKey) -> None:
    renewed(1)
    assert again(key.secret, 1.2, asked=1.2) == pytest.approx(4.7)
    silent_since(1)
    assert publish(key.secret, 4.7, asked=1.2).replaced is not None


def test_a_publisher_that_is_live_keeps_its_stream(held: Session, key: NewKey) -> None:
    assert again(key.secret, 1, asked=1) == 4.5
    renewed(3)
    assert is_refused(key.secret, 4.5, asked=1)
    assert Lease.objects.get().session_id == held.pk


@pytest.mark.both_forms
def test_a_publisher_that_speaks_again_keeps_its_stream(held: Session, key: NewKey) -> None:
    silent_since(1)
    assert again(key.secret, 3, asked=3) == 4
    leases.spoke_again(sessions={held.pk})
    assert again(key.secret, 4, asked=3) == 6.5
    renewed(6)
    assert is_refused(key.secret, 6.5, asked=3)


@pytest.mark.both_forms
def test_a_node_that_no_longer_renews_is_waited_for_until_its_lease_expires(held: Session, key: NewKey) -> None:
    """As when it was killed: nobody tells of the silence then."""
    renewed(1)
    assert again(key.secret, 2, asked=2) == 5.5
    assert again(key.secret, 5.5, asked=2) == 11
    grant = publish(key.secret, 11, asked=2)
    assert grant.replaced is None
    assert grant.lost is not None
    assert (grant.lost.pk, grant.lost.end_reason) == (held.pk, "node_lost")


def test_nobody_waits_for_longer_than_a_lease_lives(held: Session, key: NewKey) -> None:
    """However often the publisher falls silent and speaks again."""
    silent_since(8.5)
    assert is_refused(key.secret, 9, asked=1)


# --- The same key, and the publisher is of this very process, which knows more than the database was told yet ---


@pytest.fixture
def here(held: Session, monkeypatch: pytest.MonkeyPatch) -> ActiveSession:
    key, stream = held.key_id, held.stream_id
    session = ActiveSession(held.pk, "publish", "live", held.name, stream, key, 1, "node-a", held.address, "OBS")
    monkeypatch.setitem(ACTIVE, str(held.pk), session)
    return session


def publish_here(secret: str, now: float, *, asked: float) -> Grant:
    return admission.admit_publish(
        session=uuid.uuid4(),
        request=PublishRequest("live", secret, secret, True),
        peer=Peer(address="192.0.2.8", encoder="OBS", node="node-a", channel=""),
        now=at(now),
        asked_at=at(asked),
        standing=standing,
    )


@pytest.mark.both_forms
def test_a_silence_counts_that_a_busy_database_was_not_told_of(here: ActiveSession, key: NewKey) -> None:
    here.silent_since = at(1)
    with pytest.raises(NotYet) as caught:
        publish_here(key.secret, 3, asked=3)
    assert caught.value.at == at(4)
    replaced = publish_here(key.secret, 4.2, asked=3).replaced
    assert replaced is not None
    assert replaced.why == "silent"
    assert replaced.silent_s == pytest.approx(3.2)


@pytest.mark.both_forms
def test_a_publisher_that_speaks_keeps_its_stream_though_the_database_was_not_told(
    here: ActiveSession, key: NewKey
) -> None:
    silent_since(1)
    with pytest.raises(NotYet) as caught:
        publish_here(key.secret, 4.2, asked=4.2)
    assert caught.value.at == at(7.7)
    with pytest.raises(Refused) as refused:
        publish_here(key.secret, 7.7, asked=4.2)
    assert refused.value.reason == "busy"


def test_another_key_does_not_wait(held: Session, stream: Stream) -> None:
    other = keys.create(stream=stream)
    assert is_refused(other.secret, 1)
    silent_since(1)
    assert is_refused(other.secret, 9)


@pytest.mark.both_forms
def test_who_needs_no_key_takes_over_from_its_like(application: Application) -> None:
    Application.objects.update(publish_policy="open")
    first = publish("cam7")
    silent_since(0)
    with pytest.raises(NotYet):
        publish("cam7", 1)
    grant = publish("cam7", 3, address="203.0.113.4")
    assert grant.replaced is not None
    assert grant.replaced.session == first.session
    renewed(6)
    assert is_refused("cam7", 8, asked=4), "from one that is live nobody does"


# --- The stream's policy ---


@pytest.mark.both_forms
@pytest.mark.parametrize("same_key", [True, False])
def test_a_stream_that_always_takes_the_newer(held: Session, stream: Stream, key: NewKey, same_key: bool) -> None:
    Stream.objects.update(takeover="replace")
    secret = key.secret if same_key else keys.create(stream=stream).secret
    grant = publish(secret, 1)
    assert grant.replaced is not None
    assert (grant.replaced.session, grant.replaced.why, grant.replaced.silent_s) == (held.pk, "replace", None)
    assert sessions.due_to_end(node="node-a", now=at(1)) == [(held.pk, "replaced")]


def test_a_stream_that_takes_the_newer_from_the_same_address(held: Session, stream: Stream) -> None:
    Stream.objects.update(takeover="same_address")
    other = keys.create(stream=stream).secret
    assert is_refused(other, 1, address="192.0.2.8")
    grant = publish(other, 1, address="192.0.2.7")
    assert grant.replaced is not None
    assert grant.replaced.why == "same_address"


def test_no_policy_makes_up_for_a_key_that_does_not_work(held: Session, stream: Stream, key: NewKey) -> None:
    Stream.objects.update(takeover="replace")
    keys.revoke(key=key.key)
    with pytest.raises(Refused, match="key_revoked"):
        publish(key.secret, 1)
    assert Lease.objects.get().session_id == held.pk


@pytest.mark.both_forms
def test_an_operators_stop_comes_before_a_takeovers(held: Session, key: NewKey) -> None:
    Stream.objects.update(takeover="replace")
    sessions.request_stop(session_id=held.pk, note="Wrong scene.")
    publish(key.secret, 1)
    assert sessions.due_to_end(node="node-a", now=at(1)) == [(held.pk, "kicked")]


# --- What nodes tell ---


@pytest.mark.both_forms
def test_silences_are_told_in_one_statement(stream: Stream, django_assert_num_queries: object) -> None:
    held = []
    for number in range(20):
        each = Stream.objects.create(application=stream.application, name=f"many{number}")
        held.append(publish(keys.create(stream=each).secret).session)
    since = {session: at(number / 10) for number, session in enumerate(held)}
    with django_assert_num_queries(1):  # type: ignore[operator]
        leases.fell_silent(since=since)
    assert dict(Lease.objects.values_list("session_id", "silent_since")) == since
    with django_assert_num_queries(1):  # type: ignore[operator]
        leases.spoke_again(sessions=held[:19])
    assert Lease.objects.get(silent_since__isnull=False).session_id == held[19]
