"""Whether a connection is let in: its application, a key or token that its URL carries, an encoder's log-in.

Guessing of secrets is damped: who is banned is refused unheard, and a wrong secret is answered late."""

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from django.conf import settings

from ingest import clean, clock, command_line
from ingest.consumers import decisions, recorder
from ingest.consumers.active import DRAINING, ActiveSession
from ingest.consumers.admissions import Batches, answer_each
from ingest.consumers.base import ControlConsumer, in_task
from ingest.contracts import ConnectEvent, RtmpScope
from ingest.credentials import is_token, looks_like_key
from ingest.models import Application, EncoderLogin, Session
from ingest.services import authorization, encoder_login
from ingest.services.authorization import ConnectRequest, Peer
from ingest.services.bans import WINDOW_S, get_guard
from ingest.services.callback import Permission, Question
from ingest.services.encoder_login import Challenged, LoginRefused
from ingest.services.history import BanRow
from ingest.services.history_writer import get_history
from ingest.services.refusals import Action, Refused

logger = logging.getLogger(__name__)

GUESSES = {"key_unknown", "token_invalid", "login_wrong"}
"""Reasons of a refusal for which the secret may have been a guess. A wrong password is another one each time: what is
shown is the answer to a challenge, so whoever repeats one can't be told from whoever tries many."""

_held_back: "set[tuple[str, asyncio.Task[None]]]" = set()
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
            "encoders of yours are there, correct their settings, then lift the ban: %s",
            address,
            settings.BAN_S,
            guesses,
            WINDOW_S // 60,
            command_line.manage("ban lift", address),
        )
    delay = _random.uniform(0, settings.REFUSAL_DELAY_S)
    if delay:
        await _hold_back(peer.node, delay)


async def _hold_back(node: str, delay_s: float) -> None:
    """Lets so much time pass, but none while the node is drained or stops."""
    if node in DRAINING:
        return
    delay = asyncio.ensure_future(asyncio.sleep(delay_s))
    _held_back.add((node, delay))
    try:
        await asyncio.wait({delay})
    finally:
        delay.cancel()
        _held_back.discard((node, delay))


def release_delayed(node: str) -> None:
    """Has the node give all answers that it holds back: it is about to end."""
    for of, delay in _held_back:
        if of == node:
            delay.cancel()


Entered = tuple[Application, EncoderLogin | None]


def _enter(several: Sequence[ConnectRequest], until: float) -> list[Entered | Exception]:
    now, access = clock.utc_now(), authorization.read_connections(several)
    return answer_each(several, lambda request: authorization.connect(request, now, access))


ENTERING: Batches[ConnectRequest, Entered] = Batches(_enter, executor=decisions.READ)

MAX_ATTEMPTS = 20
"""Refusals of one connection that are recorded."""


PROTOCOLS: Mapping[str, Session.Protocol] = {
    "rtmp": Session.Protocol.RTMP,
    "rtmps": Session.Protocol.RTMPS,
    "http": Session.Protocol.FLV,
    "ws": Session.Protocol.FLV,
    "hls": Session.Protocol.HLS,
}
"""By the scope's scheme."""


def _protocol(scope: RtmpScope) -> str:
    """A pull's is that of the server that was dialled."""
    scheme = scope["tc_url"].partition("://")[0] if scope["scheme"] == "pull" else scope["scheme"]
    return PROTOCOLS[scheme].value if scheme in PROTOCOLS else ""


class Connecting(ControlConsumer):
    scope: RtmpScope

    def __init__(self) -> None:
        super().__init__()
        self.streams: dict[int, ActiveSession] = {}
        """The sessions of this connection by message stream id."""
        self.channel_name = ""
        """By which the channel layer reaches them."""
        self.attempts = 0
        self.action: Action = "connect"
        """What the client would do next; for a connection that breaks before it does."""
        self.app_is_known = False
        self.is_admitted = False
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
        return Peer(
            address=self.scope["client"][0],
            encoder=self.scope["flash_ver"],
            node=self.scope["node"],
            channel=self.channel_name,
            protocol=_protocol(self.scope),
        )

    @property
    def app(self) -> str:
        return authorization.split_instance(self.scope["app"])[0]

    @property
    def instance(self) -> str:
        """Of the application; "": it has none."""
        return authorization.split_instance(self.scope["app"])[1]

    def named(self, name: str) -> str:
        return authorization.full_name(self.instance, name)

    @property
    def shown_app(self) -> str:
        """Of attempts, which have the instance in the stream's name. Before it was let in it may be anything, and what
        stands in its place too."""
        return self.app if self.is_admitted else self.scope["app"]

    def record_refusal(self, refused: Refused, *, name: str = "") -> None:
        self.attempts += 1
        self.app_is_known = self.app_is_known or refused.app_is_known
        if self.attempts <= MAX_ATTEMPTS:
            recorder.attempt(
                action=refused.action,
                peer=self.peer,
                app=self.shown_app,
                app_is_known=self.app_is_known,
                name=name,
                reason=refused.reason,
                code=refused.code,
                description=refused.description,
                stream=refused.stream,
                key=refused.key,
            )

    @in_task
    async def rtmp_connect(self, event: ConnectEvent) -> None:
        answer = event["login"]
        request = ConnectRequest(
            app=self.scope["app"],
            address=self.scope["client"][0],
            credential=event["credential"],
            is_token=is_token(self.scope["query"]),
            only_plays=self.scope["scheme"] in ("http", "ws", "hls"),
            login=answer,
            is_encoder=encoder_login.publishes(self.scope["connect"], self.scope["flash_ver"]),
        )

        async def decide(deadline: float) -> Entered:
            if request.credential or answer is not None:
                refuse_banned("connect", request.address)
            application, login = await ENTERING.ask(request)
            question = Question("connect", application, instance=self.instance, login=login)
            await Permission(self.peer).ask(question)
            return application, login

        try:
            application, login = await decisions.decide_or_refuse("connect", decide)
        except Challenged as challenged:
            await self._challenge(challenged.description)
        except Refused as refused:
            self.record_refusal(refused)
            secret = f"{answer['user']} {answer['response']}" if answer is not None else request.credential
            await delay_wrong_secret(refused, self.peer, secret)
            if isinstance(refused, LoginRefused):
                await self._challenge(refused.answer)
            else:
                await self.send({"type": "rtmp.reject", "code": refused.code, "description": refused.description})
        else:
            self.action = "publish"
            self.app_is_known = self.is_admitted = True
            self.login = login.pk if login is not None else None
            self.authenticated = login is not None or looks_like_key(request.credential)
            self.shares = application.shared_objects != "none"
            await self.send({"type": "rtmp.accept", "shared_objects": application.shared_objects})

    async def _challenge(self, description: str) -> None:
        self.challenged = True
        await self.send({"type": "rtmp.challenge", "description": description})
