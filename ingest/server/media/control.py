"""A viewer's side to its application: the same questions as for an RTMP player, with a request's own answers."""

from collections.abc import Callable
from typing import Final, Protocol

from ingest.contracts import ConnectEvent, PlayAccept, PlayEvent
from ingest.server import credentials
from ingest.server.application import ApplicationSide, Served
from ingest.server.driver import Message
from ingest.server.endings import DESCRIPTIONS
from ingest.server.media.answers import Answer, refusal
from ingest.server.media.http import Request as HttpRequest
from ingest.server.media.target import Target
from ingest.server.media.viewer import STREAM_ID
from ingest.server.questions import Request
from ingest.server.scope import FLASH_VER_LENGTH, Caller

REQUEST_ID: Final = 1

START: Final[dict[str, float]] = {"live": -1.0, "recordings": 0.0}
"""As play has it: what is live and nothing else, or the recording from its beginning."""


class Asking(Served, Protocol):
    """The connection, as its control sees it."""

    def play(self, accept: PlayAccept) -> None:
        """The answer is yes."""

    def refuse(self, answer: Answer, description: str = "") -> None:
        """The answer is no, or there is nothing to ask."""


def read_caller(request: HttpRequest, scheme: str, target: Target) -> Caller:
    """Who asks, with its secrets masked; `connect` has what an RTMP client says in the command of that name."""
    presented = credentials.split_play(f"{target.name}?{target.query}", "")
    secret, app = presented.credential, credentials.scrub_text(target.app)
    url = f"{scheme}://{request.field('Host')}/{target.kind}/{app}"
    said = {"app": app, "tcUrl": url, "flashVer": request.field("User-Agent"), "pageUrl": page_of(request)}
    command = credentials.scrub({name: value for name, value in said.items() if value}, secret)
    return Caller(
        app=app,
        tc_url=command["tcUrl"],
        flash_ver=command.get("flashVer", "")[:FLASH_VER_LENGTH],
        query=presented.query,
        connect={"object": command, "arguments": []},
    )


def page_of(request: HttpRequest) -> str:
    return request.field("Referer") or request.field("Origin")


def play_event(target: Target) -> PlayEvent:
    presented = credentials.split_play(f"{target.name}?{target.query}", "")
    return {
        "type": "rtmp.play",
        "request_id": REQUEST_ID,
        "stream_id": STREAM_ID,
        "name": presented.name,
        "credential": presented.credential,
        "query": presented.query,
        "start": START[target.kind],
        "duration": -1.0,
        "reset": True,
        "transition": "",
    }


class MediaControl(ApplicationSide[Asking]):
    """Asks `connect` and then `play`; the connection answers by what comes of it."""

    protocol = "http"

    def __init__(self, connection: Asking) -> None:
        super().__init__(connection)
        self._target: Target | None = None

    def ask_for(self, target: Target, caller: Caller, now: float) -> None:
        self._target, self.caller = target, caller
        self.open()
        message: ConnectEvent = {"type": "rtmp.connect", "credential": "", "login": None}
        self.ask("connect", REQUEST_ID, 0, now, message)

    def handle(self, message: Message) -> None:
        handler = FROM_APPLICATION.get(message["type"])
        if handler is None:
            raise ValueError(f"unknown message type {message['type']!r} for scope type 'rtmp' and a viewer")
        handler(self, message)

    def refuse(self, request: Request, code: str, description: str, *, passes: bool = False) -> None:
        self.connection.refuse(refusal(code, description, passes=passes), f"{code}: {description}")

    def _accept(self, _message: Message) -> None:
        if self.answered("connect") and self._target:
            now = self.connection.loop.time()
            self.ask("play", REQUEST_ID, STREAM_ID, now, play_event(self._target))

    def _reject(self, message: Message) -> None:
        request = self.answered("connect")
        if request:
            self.refuse(request, message["code"], message["description"])

    def _challenge(self, message: Message) -> None:
        request = self.answered("connect")
        if request:
            self.refuse(request, "NetConnection.Connect.Rejected", "Who plays can't log in here.")

    def _play_accept(self, message: Message) -> None:
        accept: PlayAccept = message  # type: ignore[assignment]
        if self.answered("play", accept["request_id"], session="rtmp.stop", accept=accept):
            self.connection.play(accept)

    def _play_reject(self, message: Message) -> None:
        request = self.answered("play", message["request_id"])
        if request:
            self.refuse(request, message["code"], message["description"], passes=message.get("passes", False))

    def _close(self, message: Message) -> None:
        self.connection.end(message["reason"], DESCRIPTIONS[message["reason"]])

    def _stream_stop(self, message: Message) -> None:
        if message["stream_id"] in self.connection.sessions:
            self._close(message)

    def _ignore(self, message: Message) -> None:
        """FLV has no place for it."""


FROM_APPLICATION: dict[str, Callable[[MediaControl, Message], None]] = {
    "rtmp.accept": MediaControl._accept,
    "rtmp.reject": MediaControl._reject,
    "rtmp.challenge": MediaControl._challenge,
    "rtmp.play.accept": MediaControl._play_accept,
    "rtmp.play.reject": MediaControl._play_reject,
    "rtmp.close": MediaControl._close,
    "rtmp.stream.stop": MediaControl._stream_stop,
    "rtmp.status.send": MediaControl._ignore,
}
