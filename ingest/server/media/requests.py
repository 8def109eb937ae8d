"""What a viewer's request names, and its side to the application: the same questions as for an RTMP player.

/live/APP/NAME.flv or /recordings/APP/NAME.flv, with its query as it came; with a request's own answers.

NAME may be INSTANCE/NAME."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, cast
from urllib.parse import unquote_to_bytes

from ingest import credentials
from ingest.contracts import ConnectEvent, PlayAccept, PlayEvent
from ingest.server.application import ApplicationSide, Served
from ingest.server.asgi import DESCRIPTIONS, FLASH_VER_LENGTH, Caller, Message, Request
from ingest.server.media.http import Answer, refusal
from ingest.server.media.http import Request as HttpRequest
from ingest.server.media.live_viewer import STREAM_ID

Kind = Literal["live", "recordings"]

KINDS: Final = ("live", "recordings")
SUFFIX: Final = ".flv"

MOST_S: Final = 1 << 32
"""Of `start`: more than any file has."""


class UnreadableTarget(ValueError):  # noqa: N818 - a finding, not an error of ours.
    """It is no text in UTF-8 once it is percent-decoded."""


@dataclass(frozen=True, slots=True)
class Target:
    kind: Kind
    app: str
    name: str
    """Without the suffix, decoded."""
    query: str = field(repr=False)
    """Without '?', not decoded: it may have a token."""


def start_of(target: Target) -> int | None:
    """From where a recording is to be played, ms; None: all of the file. Raises UnreadableTarget."""
    found = credentials.query_fields(target.query).get("start")
    if found is None or target.kind != "recordings":
        return None
    try:
        seconds = float(found)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MOST_S:
        raise UnreadableTarget("start is no time")
    return round(seconds * 1000)


def read_target(raw: bytes) -> Target | None:
    """Of a request's line; None for a path under which there is nothing. Raises UnreadableTarget."""
    path, _, query = raw.partition(b"?")
    parts = path.split(b"/")
    if len(parts) not in (4, 5) or parts[0]:
        return None
    try:
        _, kind, app, *rest = (unquote_to_bytes(part).decode() for part in parts)
    except UnicodeDecodeError as error:
        raise UnreadableTarget(str(error.reason)) from error
    file = "/".join(rest)
    name = file.removesuffix(SUFFIX)
    # No stream's name has a '?': it would be taken for the beginning of another query.
    if kind not in KINDS or not app or not all(name.split("/")) or name == file or "?" in name:
        return None
    return Target(cast(Kind, kind), app, name, query.decode("ascii", "replace"))


REQUEST_ID: Final = 1

START: Final[dict[str, float]] = {"live": -1.0, "recordings": 0.0}
"""As play has it: what is live and nothing else, or the recording from its beginning."""


class AskingConnection(Served, Protocol):
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


class MediaControl(ApplicationSide[AskingConnection]):
    """Asks `connect` and then `play`; the connection answers by what comes of it."""

    protocol = "http"

    def __init__(self, connection: AskingConnection) -> None:
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
