import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from ingest.models import Application, HealthOverride, Lease, Recording, Session, Stream, StreamKey
from ingest.services import admission, authorization, keys, play_tokens, playback, sessions
from ingest.services.admission import Ask, Grant
from ingest.services.authorization import ConnectRequest, Peer, PublishRequest
from ingest.services.keys import NewKey
from ingest.services.playback import Playable, Wanted
from ingest.services.refusals import REASONS, Refused
from tests.ingest.admitting import NOW

PEER = Peer(address="192.0.2.7", encoder="OBS", node="node-a", channel="specific.inmemory!abc")


def as_name(credential: str, app: str = "live") -> PublishRequest:
    return PublishRequest(app, f"{credential[:2]}…", credential, True)


def with_name(name: str, credential: str, app: str = "live") -> PublishRequest:
    return PublishRequest(app, name, credential, False)


def publish(request: PublishRequest, now: datetime = NOW, peer: Peer = PEER) -> Grant:
    return admission.admit_publish(Ask(uuid.uuid4(), request, peer), now=now, asked_at=now)


def refusal(act: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value


# --- Connect ---


def connect(app: str = "live", credential: str = "", *, token: str = "") -> None:
    """With the application's `?key=` or `?token=`."""
    authorization.connect(ConnectRequest(app, "192.0.2.7", credential or token, is_token=bool(token)), NOW)


@pytest.mark.usefixtures("application")
def test_connect_to_unknown_or_disabled_application_is_refused() -> None:
    connect()
    refused = refusal(lambda: connect("other"))
    assert (refused.reason, refused.code) == ("unknown_app", "NetConnection.Connect.InvalidApp")
    Application.objects.update(enabled=False)
    refused = refusal(connect)
    assert (refused.reason, refused.code) == ("app_disabled", "NetConnection.Connect.Rejected")


def test_a_key_on_the_application_is_checked_at_connect(key: NewKey) -> None:
    connect(credential=key.secret)
    refused = refusal(lambda: connect(credential=keys.generate()))
    assert (refused.reason, refused.code) == ("key_unknown", "NetConnection.Connect.Rejected")


def test_imported_key_on_the_application_is_checked_at_connect(stream: Stream) -> None:
    secret = keys.create(stream=stream, secret="oldserver-key-1").secret
    connect(credential=secret)
    connect(token=secret)
    assert refusal(lambda: connect(credential="oldserver-key-2")).reason == "key_unknown"
    StreamKey.objects.update(enabled=False)
    assert refusal(lambda: connect(credential=secret)).reason == "key_disabled"


def test_a_play_token_on_the_application_is_checked_at_connect(stream: Stream) -> None:
    """Which stream it is for is left to play."""
    other = Application.objects.create(name="other", play_policy="token")
    elsewhere = Stream.objects.create(application=other, name="cam1")
    Application.objects.update(play_policy="token")
    right = play_tokens.PLAY.issue(stream.pk, now=NOW)
    connect(token=right)
    connect(credential=right)
    connect(token=play_tokens.PREVIEW.issue(stream.pk, now=NOW))
    film = Recording.objects.create(application=stream.application, name="film", file="film.flv")
    connect(token=play_tokens.RECORDING.issue(film.pk, now=NOW))
    cases = {
        play_tokens.RECORDING.issue(film.pk + 1, now=NOW): "token_invalid",
        "nonsense": "token_invalid",
        right[:-1]: "token_invalid",
        play_tokens.PLAY.issue(elsewhere.pk, now=NOW): "token_invalid",
        play_tokens.PLAY.issue(stream.pk, lifetime=timedelta(0), now=NOW): "token_expired",
    }
    refused = {token: refusal(partial(connect, token=token)) for token in cases}
    assert {token: each.reason for token, each in refused.items()} == cases
    assert {each.code for each in refused.values()} == {"NetConnection.Connect.Rejected"}


def test_public_application_refuses_only_keys_and_foreign_tokens_at_connect(stream: Stream) -> None:
    connect(token="a CDN's own")
    connect(token=play_tokens.PLAY.issue(stream.pk, lifetime=timedelta(0), now=NOW))
    assert refusal(lambda: connect(token=keys.generate())).reason == "key_unknown"
    other = Application.objects.create(name="other")
    film = Recording.objects.create(application=other, name="film", file="film.flv")
    elsewhere = Stream.objects.create(application=other, name="cam1")
    for token in (
        play_tokens.RECORDING.issue(film.pk, now=NOW),
        play_tokens.PLAY.issue(elsewhere.pk, now=NOW),
    ):
        assert refusal(partial(connect, token=token)).reason == "token_invalid", "of another application"


# --- Publish ---


@pytest.mark.parametrize("request_of", [as_name, partial(with_name, "cam1")], ids=["as the name", "beside it"])
def test_publish_with_valid_key_opens_session_and_lease(
    key: NewKey, request_of: Callable[[str], PublishRequest]
) -> None:
    grant = publish(request_of(key.secret))
    assert grant.path == "live/cam1"
    assert grant.labels == {"stream": key.key.stream_id, "key": key.key.pk}
    session = Session.objects.get()
    assert (session.pk, session.kind, session.app, session.name) == (grant.session, "publish", "live", "cam1")
    assert (session.address, session.encoder, session.channel) == ("192.0.2.7", "OBS", PEER.channel)
    assert session.ended_at is None
    lease = Lease.objects.get()
    assert (lease.session_id, lease.fencing, lease.expires_at) == (session.pk, 1, NOW + timedelta(seconds=10))
    assert StreamKey.objects.get().last_used_at == NOW


def test_limits_come_from_key_and_stream(stream: Stream) -> None:
    Stream.objects.update(target_kbps=6000, expect_audio=False, idle_timeout_s=25, first_media_timeout_s=45)
    made = keys.create(stream=stream, max_kbps=9000)
    assert publish(as_name(made.secret)).limits == {
        "max_kbps": 9000,
        "over_limit": "warn",
        "idle_timeout_s": 25.0,
        "first_media_timeout_s": 45.0,
        "target_kbps": 6000,
        "expect_audio": False,
        "expect_video": True,
        "health": {},
        "publishes": [],
    }


def test_publish_grant_carries_health_overrides_and_recent_publish_times(key: NewKey) -> None:
    """By its own rules; trials and players don't count, nor what is long ago, nor what the server itself ended."""
    stream = key.key.stream
    HealthOverride.objects.create(stream=stream, check_code="starving", warning=20.0)
    HealthOverride.objects.create(stream=stream, check_code="gop_long", enabled=False)
    for kind, ago, fields in (
        ("publish", 30, {}),
        ("publish", 90, {}),
        ("publish", 601, {}),
        ("publish", 40, {"end_reason": "node_lost"}),
        ("publish", 50, {"end_reason": "node_shutdown"}),
        ("publish", 55, {"end_reason": "lease_lost"}),
        ("publish", 60, {"is_test": True}),
        ("play", 60, {}),
    ):
        at = NOW - timedelta(seconds=ago)
        Session.objects.create(kind=kind, app="live", name="cam1", stream=stream, started_at=at, ended_at=at, **fields)
    limits = publish(as_name(key.secret)).limits
    assert limits["health"] == {
        "starving": {"enabled": True, "warning": 20.0, "bad": None, "hold_s": None},
        "gop_long": {"enabled": False, "warning": None, "bad": None, "hold_s": None},
    }
    assert limits["publishes"] == [(NOW - timedelta(seconds=ago)).timestamp() for ago in (30, 90)]


def test_publish_grant_lists_at_most_20_recent_publishes(key: NewKey) -> None:
    for ago in range(1, 41):
        at = NOW - timedelta(seconds=ago)
        Session.objects.create(kind="publish", stream=key.key.stream, started_at=at, ended_at=at)
    assert len(publish(as_name(key.secret)).limits["publishes"]) == 20


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"expires_at": NOW - timedelta(minutes=1)}, "key_expired"),
        ({"enabled": False}, "key_disabled"),
        ({"revoked_at": NOW}, "key_revoked"),
        ({"allowed_networks": ["198.51.100.0/24"]}, "network_not_allowed"),
    ],
)
def test_expired_disabled_or_revoked_key_or_wrong_network_is_refused(
    key: NewKey, change: dict[str, Any], reason: str
) -> None:
    StreamKey.objects.update(**change)
    refused = refusal(lambda: publish(as_name(key.secret)))
    assert (refused.reason, refused.code) == (reason, "NetStream.Publish.Denied")
    assert (refused.stream, refused.key) == (key.key.stream_id, key.key.pk)
    assert ("may not be used from the address 192.0.2.7" in refused.description) == (reason == "network_not_allowed")
    assert not Session.objects.exists()
    assert not Lease.objects.exists()


def test_refusal_of_expired_key_states_the_expiry_time(key: NewKey) -> None:
    StreamKey.objects.update(expires_at=datetime(2025, 11, 13, 23, 59, tzinfo=UTC))
    assert (
        refusal(lambda: publish(as_name(key.secret))).description == "The stream key expired on 13 Nov 2025, 23:59 UTC."
    )


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (as_name(keys.generate()), "key_unknown"),
        (as_name("guess"), "key_unknown"),
        (with_name("cam1", "guess"), "key_unknown"),
        (as_name("cam1"), "key_missing"),
        (as_name(""), "key_missing"),
        (with_name("cam1", ""), "key_missing"),
    ],
    ids=[
        "unknown",
        "a guess",
        "a guess beside the name",
        "the public name alone",
        "nothing",
        "nothing beside the name",
    ],
)
def test_publish_with_unknown_or_missing_key_is_refused(request_: PublishRequest, reason: str) -> None:
    refused = refusal(lambda: publish(request_))
    assert (refused.reason, refused.code) == (reason, "NetStream.Publish.Denied")


def test_key_of_another_stream_is_refused_without_naming_that_stream(cam2: Stream, key: NewKey) -> None:
    refused = refusal(lambda: publish(with_name("cam2", key.secret)))
    assert (refused.reason, refused.code) == ("key_other_stream", "NetStream.Publish.Denied")
    assert "cam1" not in refused.description


def test_key_of_another_application_or_of_a_disabled_stream_is_refused(key: NewKey) -> None:
    Application.objects.create(name="studio")
    assert refusal(lambda: publish(as_name(key.secret, app="studio"))).reason == "key_other_app"
    Stream.objects.update(enabled=False)
    assert refusal(lambda: publish(as_name(key.secret))).reason == "stream_disabled"


@pytest.mark.both_forms
def test_a_second_publisher_is_busy(key: NewKey) -> None:
    first = publish(as_name(key.secret))
    second = as_name(keys.create(stream=key.key.stream).secret)
    for act in (
        lambda: publish(second),
        lambda: admission.check_publish(Ask(uuid.uuid4(), second, PEER), now=NOW, asked_at=NOW),
    ):
        refused = refusal(act)
        assert (refused.reason, refused.code) == ("busy", "NetStream.Publish.BadName")
    assert Session.objects.get().pk == first.session
    assert Session.objects.get().ended_at is None


# --- Open applications ---


@pytest.fixture
def open_app(db: None) -> Application:
    return Application.objects.create(name="bench", publish_policy="open")


@pytest.mark.stores
@pytest.mark.usefixtures("open_app")
def test_an_open_application_makes_streams_as_they_come() -> None:
    grant = publish(as_name("cam7", app="bench"))
    assert grant.path == "bench/cam7"
    assert grant.labels["key"] is None
    assert Stream.objects.get().path == "bench/cam7"


def test_a_key_works_on_an_open_application_too(open_app: Application) -> None:
    stream = Stream.objects.create(application=open_app, name="cam1")
    for secret in (keys.create(stream=stream).secret, keys.create(stream=stream, secret="oldserver-key-1").secret):
        grant = publish(as_name(secret, app="bench"))
        assert grant.path == "bench/cam1"
        sessions.end(session=grant.session, reason="tcp_reset")
    assert Stream.objects.count() == 1


@pytest.mark.usefixtures("open_app")
def test_wrong_key_on_open_application_is_refused_and_creates_no_stream() -> None:
    for request in (with_name("cam1", "guess", app="bench"), as_name(keys.generate(), app="bench")):
        assert refusal(partial(publish, request)).reason == "key_unknown"
    assert not Stream.objects.exists()


@pytest.mark.usefixtures("open_app")
@pytest.mark.parametrize(
    "name",
    [
        *("a/b/c", "/b", "a/", ".a/b", "a/..", "a/kick", "x" * 65 + "/b"),
        *("a b", "..", "x" * 256, "a\x00b"),
        *("gpj.\u202emac", "cam\u200b1", "\ufeffcam1", "cam\u2066\u20691", "ca\u00adm1"),
    ],
)
def test_publish_with_invalid_stream_name_is_refused(name: str) -> None:
    assert refusal(lambda: publish(as_name(name, app="bench"))).reason == "name_invalid"
    assert not Stream.objects.exists()


def test_existing_stream_with_invalid_name_still_publishes_and_plays(open_app: Application) -> None:
    stream = Stream.objects.create(application=open_app, name="cam\u200b1")
    grant = publish(as_name(stream.name, app="bench"))
    assert grant.path == stream.path
    found = playback.check(app="bench", name=stream.name, credential="", now=NOW)
    assert found.stream == stream


# --- Play ---


def play(name: str = "cam1", token: str = "", now: datetime = NOW, wanted: Wanted = "live") -> Playable:
    return playback.check(app="live", name=name, credential=token, now=now, wanted=wanted)


def test_anyone_plays_a_public_application(stream: Stream, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        grant = play()
    assert grant.path == "live/cam1"
    assert grant.labels == {"stream": stream.pk, "key": None}


def test_an_application_that_is_disabled_or_not_there_plays_nothing(stream: Stream) -> None:
    Application.objects.update(enabled=False)
    assert refusal(play).reason == refusal(partial(play, "cam2")).reason == "app_disabled"
    Application.objects.all().delete()
    assert refusal(play).reason == "unknown_app"


@pytest.mark.stores
@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"], ids=["nul", "surrogate"])
def test_name_with_nul_or_surrogate_is_refused_as_unknown(stream: Stream, text: str) -> None:
    assert refusal(partial(connect, text)).reason == "unknown_app"
    assert refusal(partial(play, text)).reason == "stream_unknown"
    assert refusal(lambda: publish(as_name(text))).reason == "key_unknown"


def test_play_of_unknown_disabled_or_unplayable_stream_is_refused(stream: Stream, key: NewKey) -> None:
    for name in ("cam2", key.secret):
        refused = refusal(partial(play, name))
        assert (refused.reason, refused.code) == ("stream_unknown", "NetStream.Play.StreamNotFound")
    Application.objects.update(play_policy="none")
    refused = refusal(play)
    assert (refused.reason, refused.code) == ("play_not_allowed", "NetStream.Play.Failed")
    Application.objects.update(play_policy="public")
    Stream.objects.update(enabled=False)
    assert refusal(play).reason == "stream_disabled"


def test_play_token_is_checked_for_presence_stream_and_expiry(stream: Stream, cam2: Stream) -> None:
    Application.objects.update(play_policy="token")
    token = play_tokens.PLAY.issue(stream.pk, lifetime=timedelta(minutes=5), now=NOW)
    assert play(token=token).path == "live/cam1"
    cases = {
        "": "token_missing",
        "nonsense": "token_invalid",
        token[:-1]: "token_invalid",
        play_tokens.PLAY.issue(cam2.pk, now=NOW): "token_invalid",
        play_tokens.PLAY.issue(stream.pk, lifetime=timedelta(0), now=NOW): "token_expired",
    }
    assert {given: refusal(partial(play, token=given)).reason for given in cases} == cases
    assert refusal(lambda: play(token=token, now=NOW + timedelta(minutes=5))).reason == "token_expired"


def test_every_reason_fits_its_column_and_tells_what_it_means() -> None:
    for reason, entry in REASONS.items():
        assert len(reason) <= 32
        assert entry.description.endswith(".")
        for code in entry.codes.values():
            assert code.startswith(("NetConnection.Connect.", "NetStream.Publish.", "NetStream.Play."))
