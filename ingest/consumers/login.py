"""Whether a connection is let in: its application, a key or token that its URL carries, an encoder's log-in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ingest import clock
from ingest.consumers import database, deciding, guarding
from ingest.consumers.asking import Permission
from ingest.consumers.base import ControlConsumer
from ingest.consumers.batches import Batches
from ingest.contracts import ConnectEvent, LoginAnswer
from ingest.models import Application, EncoderLogin
from ingest.server.credentials import is_token, looks_like_key
from ingest.services import callback, credentials, encoderlogin, instances
from ingest.services.access import Access
from ingest.services.encoderlogin import Challenged, LoginRefused
from ingest.services.publishrequest import Peer
from ingest.services.refusals import Action, Refused


@dataclass(frozen=True, slots=True)
class Entering:
    """A connection that asks to be let in."""

    app: str
    credential: str = field(repr=False)
    is_token: bool
    is_viewer: bool
    said: LoginAnswer | None = field(repr=False)
    publisher: bool
    address: str

    def check(self, access: Access, now: datetime) -> tuple[Application, EncoderLogin | None]:
        application = credentials.connect(
            app=self.app,
            credential=self.credential,
            address=self.address,
            now=now,
            is_token=self.is_token,
            only_plays=self.is_viewer,
            access=access,
        )
        return application, encoderlogin.enter(
            application=application,
            said=self.said,
            publisher=self.publisher,
            has_credential=bool(self.credential),
            address=self.address,
            now=now,
        )


Entered = tuple[Application, EncoderLogin | None]


def _enter(several: Sequence[Entering], until: float) -> list[Entered | Exception]:
    now, access = clock.utc_now(), credentials.named_by((each.app, each.credential) for each in several)
    answers: list[Entered | Exception] = []
    for each in several:
        try:
            answers.append(each.check(access, now))
        except Exception as error:
            answers.append(error)
    return answers


ENTERING: Batches[Entering, Entered] = Batches(_enter, executor=database.READ)


class Connecting(ControlConsumer):
    """What an RtmpConsumer does about `connect`."""

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
        return instances.split(self.scope["app"])[0]

    @property
    def instance(self) -> str:
        """and of its instance; "": it has none."""
        return instances.split(self.scope["app"])[1]

    def named(self, name: str) -> str:
        """A stream's whole name, by what the client calls it."""
        return instances.full_name(self.instance, name)

    def record_refusal(self, refused: Refused, *, name: str) -> None:
        raise NotImplementedError

    async def rtmp_connect(self, event: ConnectEvent) -> None:
        self.spawn(self._connect(event))

    async def _connect(self, event: ConnectEvent) -> None:
        address, said = self.scope["client"][0], event["login"]
        is_viewer, as_token = self.scope["scheme"] in ("http", "ws"), is_token(self.scope["query"])
        publisher = encoderlogin.publishes(self.scope["connect"], self.scope["flash_ver"])

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
                guarding.hear("connect", address)
            application, login = await ENTERING.ask(entering)
            await Permission(self.peer).ask(
                callback.question("connect", application, instance=self.instance, login=login)
            )
            return application, login

        try:
            application, login = await deciding.decided("connect", decide)
        except Challenged as challenged:
            await self._challenge(challenged.description)
        except Refused as refused:
            self.record_refusal(refused, name="")
            secret = f"{said['user']} {said['response']}" if said is not None else event["credential"]
            await guarding.damp(refused, self.peer, secret)
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
