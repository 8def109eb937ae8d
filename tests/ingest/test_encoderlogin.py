"""Encoders' log-ins through sockets: their rounds, what they let one do, and what they never tell."""

import base64
import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.contracts import LoginAnswer
from ingest.credentials import split_app
from ingest.models import Application, Attempt, Ban, EncoderLogin, Session, Stream
from ingest.services import encoder_login, sessions
from ingest.services.encoder_login import NewPassword
from ingest.services.keys import NewKey
from tests.ingest.clients import all_ended, go_live, publish_to
from tests.ingest.control import NODE, flush, listening
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient

pytestmark = pytest.mark.usefixtures("process")

WRONG = "[ AccessManager.Reject ] : [ authmod={} ] : ?reason=authfailed"


CLIENT_CHALLENGE = "c35fe970"


def _base64_md5(text: str) -> str:
    return base64.b64encode(hashlib.md5(text.encode()).digest()).decode()  # noqa: S324 - the protocol's.


def _hex_md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()  # noqa: S324 - the protocol's.


def fields_of(description: str) -> dict[str, str]:
    """What the second round tells."""
    query = description.partition("?")[2]
    return dict(item.split("=", 1) for item in query.split("&"))


def adobe(user: str, password: str, told: dict[str, str]) -> str:
    hashed = _base64_md5(user + told["salt"] + password)
    response = _base64_md5(hashed + told["opaque"] + CLIENT_CHALLENGE)
    return f"?authmod=adobe&user={user}&challenge={CLIENT_CHALLENGE}&response={response}&opaque={told['opaque']}"


def llnw(user: str, password: str, told: dict[str, str], app: str = "live") -> str:
    request = _hex_md5(f"publish:/{app}/_definst_")
    own = _hex_md5(f"{user}:live:{password}")
    response = _hex_md5(f"{own}:{told['nonce']}:00000001:{CLIENT_CHALLENGE}:auth:{request}")
    return f"?authmod=llnw&user={user}&nonce={told['nonce']}&cnonce={CLIENT_CHALLENGE}&nc=00000001&response={response}"


METHODS = {"adobe": adobe, "llnw": llnw}


async def asked(port: int, app: str) -> str:
    """What the server answers to a connect that it refuses; it closes then."""
    async with RtmpClient(port=port) as client:
        with pytest.raises(Refused) as refused:
            await client.connect(app)
        await client.wait_closed()
    return refused.value.description


@dataclass
class Encoder:
    """Its rounds; `queries` are those of the application's name."""

    port: int
    user: str
    password: str
    app: str = "live"

    async def first(self) -> str:
        """The method that the server asks for."""
        told = await asked(self.port, self.app)
        found = re.fullmatch(r"\[ AccessManager\.Reject \] : \[ code=403 need auth; authmod=(\w+) \] : ", told)
        assert found is not None
        return found[1]

    async def second(self, method: str = "adobe") -> dict[str, str]:
        told = await asked(self.port, f"{self.app}?authmod={method}&user={self.user}")
        assert told.startswith(f"[ AccessManager.Reject ] : [ authmod={method} ] : ?reason=needauth&user={self.user}&")
        return fields_of(told)

    async def query(self, method: str = "adobe") -> str:
        """What it connects with in the third round."""
        return METHODS[method](self.user, self.password, await self.second(method))


@pytest.fixture(autouse=True)
def no_delay(settings: Any) -> None:
    settings.REFUSAL_DELAY_S = 0.0


@pytest.fixture
def login(stream: Stream) -> NewPassword:
    return encoder_login.create(stream=stream, user="bob", label="van")


# --- What was recorded of FFmpeg ---


@pytest.mark.parametrize(
    ("app", "is_right"),
    [
        ("live?authmod=adobe&user=bob&challenge=c35fe970&response=1nfboAiXDpvdX6/wZpK0Dg==&opaque=CHAL1==", True),
        ("live?authmod=adobe&user=bob&challenge=826e0030&response=S5pIeS/CEjlAfY3KBASCWg==&opaque=CHAL1==", False),
        ("live?authmod=adobe&user=bob&challenge=c35fe970&response=&opaque=CHAL1==", False),
        (
            "live?authmod=llnw&user=bob&nonce=NONCE1&cnonce=60ca8b6a&nc=00000001"
            "&response=31ebf9d03c063450c08e35e001cfdd5a",
            True,
        ),
        (
            "other?authmod=llnw&user=bob&nonce=NONCE1&cnonce=60ca8b6a&nc=00000001"
            "&response=31ebf9d03c063450c08e35e001cfdd5a",
            False,
        ),
    ],
)
def test_recorded_login_answers_are_judged_right_or_wrong(app: str, is_right: bool) -> None:
    """User bob, password s3cret, salt SALT1; the second one by another password."""
    said = split_app(app).login
    assert said is not None
    bob = encoder_login.keep_password(EncoderLogin(user="bob"), "s3cret", "SALT1")
    assert encoder_login.is_right_answer(said, bob) is is_right


# --- The rounds ---


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["cam1", ""])
async def test_encoder_publishes_after_three_login_rounds(login: NewPassword, method: str, name: str) -> None:
    await Application.objects.aupdate(encoder_login=True)
    async with listening() as port:
        encoder = Encoder(port, "bob", login.password)
        assert await encoder.first() == "adobe"
        assert await publish_to(port, name, f"live{await encoder.query(method)}") == "live"
    flush()
    session = await Session.objects.select_related("login").aget()
    assert (session.name, str(session.login), session.key_id) == ("cam1", "van (bob)", None)
    assert (await EncoderLogin.objects.aget()).last_used_at == session.ended_at
    assert not await Attempt.objects.aexists(), "rounds are no refusals"


async def test_login_is_asked_of_encoders_without_key_but_not_of_players(login: NewPassword, key: NewKey) -> None:
    """Encoders without a key in the URL, once the application says so."""
    player = {"type": None, "flashVer": "LNX 9,0,124,2"}

    async def connects(app: str, **properties: Any) -> bool:
        async with RtmpClient(port=port) as client:
            try:
                await client.connect(app, **properties)
            except Refused as refused:
                return "need auth" not in refused.description
        return True

    async with listening() as port:
        assert await connects("live")
        await Application.objects.aupdate(encoder_login=True)
        assert not await connects("live")
        assert not await connects("live", flashVer="FMLE/3.0 (compatible; FMSc/1.0)", type=None)
        assert not await connects("live", flashVer=None)
        assert await connects("live", **player)
        assert await connects(f"live?key={key.secret}")


async def test_encoder_naming_a_login_method_gets_its_rounds_unasked(login: NewPassword) -> None:
    async with listening() as port:
        assert await asked(port, "live?authmod=llnw") == encoder_login.invitation("llnw")
        encoder = Encoder(port, "bob", login.password)
        assert await publish_to(port, "cam1", f"live{await encoder.query()}") == "live"
        assert "adobe and llnw are" in await asked(port, "live?authmod=basic&user=bob")
        assert (await asked(port, "nowhere?authmod=adobe&user=bob")) == "There is no such application."


@pytest.mark.parametrize("method", METHODS)
async def test_unknown_user_and_wrong_password_are_refused_alike(login: NewPassword, method: str) -> None:
    async with listening() as port:
        for user, password in (("bob", "wrong password"), ("nobody", login.password)):
            answer = await Encoder(port, user, password).query(method)
            assert await asked(port, f"live{answer}") == WRONG.format(method)
        assert await asked(port, f"live?authmod={method}&user=no/body") == WRONG.format(method)
    flush()
    reasons = [(row.reason, row.action) async for row in Attempt.objects.order_by("pk")]
    assert set(reasons) == {("login_wrong", "connect")}


async def test_challenges_do_not_reveal_whether_a_user_exists(login: NewPassword) -> None:
    await Application.objects.acreate(name="other")
    async with listening() as port:
        told: dict[tuple[str, str], list[dict[str, str]]] = {}
        for app in ("live", "other"):
            for user in ("bob", "eve"):
                told[app, user] = [await Encoder(port, user, "", app).second() for _ in range(2)]
    for first, again in told.values():
        assert first.keys() == {"reason", "user", "salt", "challenge", "opaque"}
        assert {name: len(first[name]) for name in first} == {name: len(again[name]) for name in again}
        assert first["salt"] == again["salt"]
        assert first["opaque"] != again["opaque"]
    salts = [first["salt"] for first, _ in told.values()]
    assert len(set(salts)) == len(salts)
    assert {len(salt) for salt in salts} == {16}


@pytest.mark.both_forms
async def test_an_answer_is_good_once(login: NewPassword) -> None:
    async with listening() as port:
        answer = await Encoder(port, "bob", login.password).query()
        assert await publish_to(port, "cam1", f"live{answer}") == "live"
        assert "?reason=needauth&" in await asked(port, f"live{answer}"), "it is asked anew"


async def test_answer_to_an_expired_challenge_restarts_the_login(
    login: NewPassword, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening() as port:
        answer = await Encoder(port, "bob", login.password).query()
        monkeypatch.setattr(encoder_login, "LIFE", timedelta(seconds=-1))
        assert "?reason=needauth&" in await asked(port, f"live{answer}")


def said(user: str, password: str, token: str, salt: str) -> LoginAnswer:
    known = encoder_login.keep_password(EncoderLogin(user=user), password, salt)
    answer: LoginAnswer = {
        "authmod": "adobe",
        "user": user,
        "salt": "",
        "opaque": token,
        "nonce": "",
        "challenge": "c2",
        "cnonce": "",
        "nc": "",
        "response": "",
        "app": "live",
    }
    return answer | {"response": encoder_login.AUTHMODS["adobe"].answer(answer, known)}


@pytest.mark.parametrize(
    ("address", "token_of", "tampered"),
    [
        ("198.51.100.1", "bob", ""),
        ("192.0.2.7", "eve", ""),
        ("192.0.2.7", "bob", "0"),
        ("192.0.2.7", "bob", "not a token"),
    ],
    ids=["another address", "another user", "another time", "made up"],
)
def test_challenge_of_another_address_or_user_or_forged_is_refused(
    login: NewPassword, application: Application, address: str, token_of: str, tampered: str
) -> None:
    now = timezone.now()
    token = encoder_login.issue_challenge(app="live", user=token_of, address="192.0.2.7", now=now)
    if tampered:
        token = tampered + token[1:] if len(tampered) == 1 else tampered
    answer = said("bob", login.password, token, login.login.salt)
    with pytest.raises(encoder_login.LoginRefused) as refused:
        encoder_login.enter(application, answer, is_asked=True, address=address, now=now)
    assert refused.value.reason == "login_challenge"


@pytest.mark.both_forms
def test_challenge_token_is_valid_for_30_s_from_its_network(login: NewPassword, application: Application) -> None:
    """For a while; its clock may be a little behind."""
    now = timezone.now()
    token = encoder_login.issue_challenge(app="live", user="bob", address="2001:db8::1", now=now)

    def verdict(seconds: float, address: str = "2001:db8::1") -> str:
        return encoder_login.evaluate_token(
            token, app="live", user="bob", address=address, now=now + timedelta(seconds=seconds)
        )

    assert [verdict(-5), verdict(0), verdict(29), verdict(31), verdict(-60)] == [
        "valid",
        "valid",
        "valid",
        "expired",
        "expired",
    ]
    assert verdict(0, "2001:db8::2") == "valid", "an IPv6 address stands for its network"
    assert verdict(0, "2001:db8:0:1::1") == "foreign"


def test_spent_challenges_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_login, "MOST_SPENT", 3)
    spent, now = encoder_login.Spent(), timezone.now()
    assert [spent.spend(token, now) for token in "aabcd"] == [True, False, True, True, True]
    assert len(spent._until) == 3
    assert spent.spend("d", now + timedelta(minutes=1))
    assert len(spent._until) == 1


async def test_address_guessing_login_passwords_is_banned(login: NewPassword, settings: Any) -> None:
    settings.GUESSES = 3
    async with listening() as port:
        for number in range(3):
            answer = await Encoder(port, "bob", f"guess-{number}").query()
            assert await asked(port, f"live{answer}") == WRONG.format("adobe")
        assert "Too many" in await asked(port, "live?authmod=adobe&user=bob")
    flush()
    assert (await Ban.objects.aget()).guesses == 3


# --- What a log-in lets one do ---


async def test_login_publishes_only_to_its_own_stream_and_application(login: NewPassword, other_key: NewKey) -> None:
    async with listening() as port:
        encoder = Encoder(port, "bob", login.password)
        refused = await publish_to(port, "cam2", f"live{await encoder.query()}")
        assert refused.startswith("NetStream.Publish.Denied: The encoder's log-in belongs to another stream.")
        assert await publish_to(port, other_key.secret, f"live{await encoder.query()}") == "live", "a key is a key"
        other_app = Encoder(port, "bob", login.password, "studio")
        await Application.objects.acreate(name="studio")
        assert await asked(port, f"studio{await other_app.query()}") == WRONG.format("adobe")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"enabled": False}, "disabled"),
        ({"expires_at": timezone.now() - timedelta(hours=1)}, "expired on"),
        ({"stream__enabled": False}, "The stream is disabled."),
    ],
)
async def test_reason_of_an_unusable_login_is_told_only_with_its_right_password(
    login: NewPassword, change: dict[str, Any], told: str
) -> None:
    if "stream__enabled" in change:
        await Stream.objects.aupdate(enabled=False)
    else:
        await EncoderLogin.objects.aupdate(**change)
    async with listening() as port:
        encoder = Encoder(port, "bob", login.password)
        assert told in await asked(port, f"live{await encoder.query()}")
        encoder.password = "another"
        assert await asked(port, f"live{await encoder.query()}") == WRONG.format("adobe"), (
            "told to who has the password"
        )


async def test_a_new_password_makes_the_old_one_wrong(login: NewPassword) -> None:
    changed = await sync_to_async(encoder_login.set_password)(login=login.login, password="another-one")
    async with listening() as port:
        assert await asked(port, f"live{await Encoder(port, 'bob', login.password).query()}") == WRONG.format("adobe")
        assert await publish_to(port, "cam1", f"live{await Encoder(port, 'bob', changed.password).query()}") == "live"


ENDS: dict[str, Callable[[EncoderLogin], object]] = {
    "revoked": lambda login: encoder_login.revoke(login=login),
    "disabled": lambda login: EncoderLogin.objects.update(enabled=False),
    "expired": lambda login: EncoderLogin.objects.update(expires_at=timezone.now()),
    "deleted": lambda login: EncoderLogin.objects.all().delete(),
}


@pytest.mark.parametrize("what", ENDS)
async def test_live_publisher_ends_when_its_login_is_revoked_or_expires(login: NewPassword, what: str) -> None:
    async with listening() as port, RtmpClient(port=port) as encoder:
        await go_live(encoder, "cam1", f"live{await Encoder(port, 'bob', login.password).query()}")
        assert await sync_to_async(sessions.due_to_end)(node=NODE, now=timezone.now()) == [], "while its log-in holds"
        await sync_to_async(ENDS[what])(login.login)
        await encoder.wait_closed(timeout_s=5)
        await until(all_ended)
    assert (await Session.objects.aget()).end_reason == "key_revoked"


@pytest.mark.usefixtures("short_silence")
async def test_a_publisher_that_comes_back_takes_its_stream_over(login: NewPassword) -> None:
    """After some silence, by the same log-in; another one waits for nothing."""
    eve = await sync_to_async(encoder_login.create)(stream=login.login.stream, user="eve")
    async with listening() as port, RtmpClient(port=port) as gone, RtmpClient(port=port, timeout_s=15) as back:
        bob = Encoder(port, "bob", login.password)
        await go_live(gone, "cam1", f"live{await bob.query()}")
        other = await publish_to(port, "cam1", f"live{await Encoder(port, 'eve', eve.password).query()}")
        assert other.startswith("NetStream.Publish.BadName")
        await back.connect(f"live{await bob.query()}")
        await back.publish("cam1")
        await gone.wait_closed(timeout_s=5)


# --- What is never told ---


async def test_login_users_passwords_and_answers_appear_in_no_log_or_row(
    login: NewPassword, caplog: pytest.LogCaptureFixture
) -> None:
    user = "a-very-particular-user"
    await EncoderLogin.objects.aupdate(user=user)
    fresh = await EncoderLogin.objects.select_related("stream__application").aget()
    made = await sync_to_async(encoder_login.set_password)(login=fresh)
    with caplog.at_level(logging.DEBUG):
        async with listening() as port:
            encoder = Encoder(port, user, made.password)
            wrong = await Encoder(port, user, "wrong password").query()
            await asked(port, f"live{wrong}")
            right = await encoder.query()
            assert await publish_to(port, "cam1", f"live{right}") == "live"
    flush()
    kept = [repr(row) async for row in Session.objects.values()] + [repr(row) async for row in Attempt.objects.values()]
    for text in (
        user,
        made.password,
        *(part for part in (right + wrong).replace("&", "=").split("=") if len(part) > 12),
    ):
        assert text not in caplog.text
        assert text not in repr(kept)


def test_a_password_shows_in_no_representation(login: NewPassword) -> None:
    assert login.password not in repr(login)
    assert login.password not in repr(login.login.__dict__)
