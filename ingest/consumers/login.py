"""Whether a connection is let in: its application, a key or token that its URL carries, an encoder's log-in.

Guessing of secrets is damped: who is banned is refused unheard, and a wrong secret is answered late."""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.conf import settings

from ingest import clean, clock
from ingest.consumers import decisions
from ingest.consumers.active import DRAINING
from ingest.consumers.admissions import Batches, answer_each
from ingest.consumers.base import ControlConsumer
from ingest.contracts import ConnectEvent, LoginAnswer
from ingest.credentials import is_token, looks_like_key
from ingest.models import Application, EncoderLogin
from ingest.services import authorization, callback, encoder_login
from ingest.services.authorization import Access, Peer
from ingest.services.bans import WINDOW_S, get_guard
from ingest.services.callback import Permission
from ingest.services.encoder_login import Challenged, LoginRefused
from ingest.services.history import BanRow
from ingest.services.history_writer import get_history
from ingest.services.refusals import Action, Refused

logger = logging.getLogger(__name__)

GUESSES = {"key_unknown", "token_invalid", "login_wrong"}
"""Reasons of a refusal for which the secret may have been a guess. A wrong password is another one each time: what is
shown is the answer to a challenge, so whoever repeats one can't be told from whoever tries many."""

_held_back: "set[tuple[str, asyncio.Future[None]]]" = set()
"""Answers that wait, with their nodes."""

_random = secrets.SystemRandom()


def refuse_banned(action: Action, address: str) -> None:
    """Raises Refused for a banned address. To be asked before a secret is looked up, and before the database is: who is
    banned takes no place there.
    """
    until = get_guard().banned_until(address, clock.now())
    if until is not None:
        raise Refused(action, "banned", stream=None, key=None, when=datetime.fromtimestamp(until, UTC))


async def delay_wrong_secret(refused: Refused, peer: Peer, secret: str) -> None:
    """After a refusal, before the answer: counts a wrong secret, bans who tried too many, and lets time pass."""
    if refused.reason not in GUESSES:
        return
    now = clock.now()
    guesses = get_guard().wrong(peer.address, secret, now)
    if guesses:
        address = clean.text(peer.address, 64)
        get_history().put(BanRow(address, datetime.fromtimestamp(now, UTC), settings.BAN_S, guesses, peer.node))
        logger.warning(
            "%s is banned for %d s: %d different wrong keys, tokens or passwords came from it within %d minutes. If "
            "encoders of yours are there, correct their settings, then lift the ban: manage.py ban lift %s",
            address,
            settings.BAN_S,
            guesses,
            WINDOW_S // 60,
            address,
        )
    delay = _random.uniform(0, settings.REFUSAL_DELAY_S)
    if delay:
        await _hold_back(peer.node, delay)


async def _hold_back(node: str, delay_s: float) -> None:
    """Lets so much time pass, but none while the node is drained or stops."""
    if node in DRAINING:
        return
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(delay_s, _release, over)
    _held_back.add((node, over))
    try:
        await over
    finally:
        timer.cancel()
        _held_back.discard((node, over))


def release_delayed(node: str) -> None:
    """Has the node give all answers that it holds back: it is about to end."""
    for of, over in _held_back:
        if of == node:
            _release(over)


def _release(over: "asyncio.Future[None]") -> None:
    if not over.done():
        over.set_result(None)


@dataclass(frozen=True, slots=True)
class Entering:
    app: str
    credential: str = field(repr=False)
    is_token: bool
    is_viewer: bool
    said: LoginAnswer | None = field(repr=False)
    publisher: bool
    address: str

    def check(self, access: Access, now: datetime) -> tuple[Application, EncoderLogin | None]:
        application = authorization.connect(
            app=self.app,
            credential=self.credential,
            address=self.address,
            now=now,
            is_token=self.is_token,
            only_plays=self.is_viewer,
            access=access,
        )
        return application, encoder_login.enter(
            application=application,
            said=self.said,
            publisher=self.publisher,
            has_credential=bool(self.credential),
            address=self.address,
            now=now,
        )


Entered = tuple[Application, EncoderLogin | None]


def _enter(several: Sequence[Entering], until: float) -> list[Entered | Exception]:
    now, access = clock.utc_now(), authorization.read_connections((each.app, each.credential) for each in several)
    return answer_each(several, lambda each: each.check(access, now))


ENTERING: Batches[Entering, Entered] = Batches(_enter, executor=decisions.READ)


class Connecting(ControlConsumer):
    def __init__(self) -> None:
        super().__init__()
        self.action: Action = "connect"
        """What the client would do next; for a connection that breaks before it does."""
        self.app_is_known = False
        self.let_in = False
        """`connect` was accepted."""
        self.login: int | None = None
        """The EncoderLogin by which it has logged in."""
        self.authenticated = False
        """Whether it has shown a key or a token that let it in, or has logged in."""
        self.shares = False
        """Whether its application has shared objects: then it may be of use without publishing or playing."""
        self.challenged = False
        """It was told to log in, and comes back by another connection."""

    @property
    def peer(self) -> Peer:
        raise NotImplementedError

    @property
    def app(self) -> str:
        """The name of the application that it connects to,"""
        return authorization.split_instance(self.scope["app"])[0]

    @property
    def instance(self) -> str:
        """and of its instance; "": it has none."""
        return authorization.split_instance(self.scope["app"])[1]

    def named(self, name: str) -> str:
        """A stream's whole name, by what the client calls it."""
        return authorization.full_name(self.instance, name)

    def record_refusal(self, refused: Refused, *, name: str) -> None:
        raise NotImplementedError

    async def rtmp_connect(self, event: ConnectEvent) -> None:
        self.spawn(self._connect(event))

    async def _connect(self, event: ConnectEvent) -> None:
        address, said = self.scope["client"][0], event["login"]
        is_viewer, as_token = self.scope["scheme"] in ("http", "ws"), is_token(self.scope["query"])
        publisher = encoder_login.publishes(self.scope["connect"], self.scope["flash_ver"])

        entering = Entering(
            app=self.scope["app"],
            credential=event["credential"],
            is_token=as_token,
            is_viewer=is_viewer,
            said=said,
            publisher=publisher,
            address=address,
        )

        async def decide(deadline: float) -> tuple[Application, EncoderLogin | None]:
            if event["credential"] or said is not None:
                refuse_banned("connect", address)
            application, login = await ENTERING.ask(entering)
            await Permission(self.peer).ask(
                callback.question("connect", application, instance=self.instance, login=login)
            )
            return application, login

        try:
            application, login = await decisions.decide_or_refuse("connect", decide)
        except Challenged as challenged:
            await self._challenge(challenged.description)
        except Refused as refused:
            self.record_refusal(refused, name="")
            secret = f"{said['user']} {said['response']}" if said is not None else event["credential"]
            await delay_wrong_secret(refused, self.peer, secret)
            if isinstance(refused, LoginRefused):
                await self._challenge(refused.answer)
            else:
                await self.send({"type": "rtmp.reject", "code": refused.code, "description": refused.description})
        else:
            self.action = "publish"
            self.app_is_known = self.let_in = True
            self.login = login.pk if login is not None else None
            self.authenticated = login is not None or looks_like_key(event["credential"])
            self.shares = application.shared_objects != "none"
            await self.send({"type": "rtmp.accept", "shared_objects": application.shared_objects})

    async def _challenge(self, description: str) -> None:
        self.challenged = True
        await self.send({"type": "rtmp.challenge", "description": description})
