"""What a viewer's request names, and its side to the application: the same questions as for an RTMP player.

/live/APP/NAME.flv, /recordings/APP/NAME.flv or .mp4, with its query as it came; with a request's own answers.

NAME may be INSTANCE/NAME."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import ClassVar, Final, Literal, cast
from urllib.parse import unquote_to_bytes

from ingest import credentials
from ingest.contracts import ConnectEvent, PlayAccept
from ingest.live.message import STREAM_ID
from ingest.rtmp.events import PlayRequested
from ingest.server.asgi import FLASH_VER_LENGTH, Caller, Kind, Message, Request, play_event
from ingest.server.config import Deadlines
from ingest.server.connection_base import Answer
from ingest.server.media import http
from ingest.server.media.connection import MediaConnection
from ingest.server.media.http import refusal
from ingest.server.media.live_viewer import LiveViewer
from ingest.server.media.parts import Wanted
from ingest.server.media.recording_viewer import FLV, GONE, GROWING, Form, RecordingViewer
from ingest.server.viewing_side import ViewingSide

TargetKind = Literal["live", "recordings"]

FORMS: Final[dict[TargetKind, dict[str, Form]]] = {
    "live": {".flv": "flv"},
    "recordings": {".flv": "flv", ".mp4": "mp4"},
}
"""By how the path ends."""
SUFFIX_LENGTH: Final = 4

MOST_S: Final = 1 << 32
"""Of `start`: more than any file has."""


class UnreadableTarget(ValueError):  # noqa: N818 - a finding, not an error of ours.
    """It is no text in UTF-8 once it is percent-decoded."""


@dataclass(frozen=True, slots=True)
class Target:
    kind: TargetKind
    app: str
    name: str
    """Without the suffix, decoded."""
    form: Form
    query: str = field(repr=False)
    """Without '?', not decoded: it may have a token."""


def start_of(target: Target) -> int | None:
    """From where a recording is to be played, ms; None: all of the file, in which who plays MP4 seeks. Raises
    UnreadableTarget."""
    found = credentials.query_fields(target.query).get("start")
    if found is None or target.kind != "recordings" or target.form != "flv":
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
    name, form = file[:-SUFFIX_LENGTH], FORMS.get(cast(TargetKind, kind), {}).get(file[-SUFFIX_LENGTH:])
    # No stream's name has a '?': it would be taken for the beginning of another query.
    if form is None or not app or not all(name.split("/")) or "?" in name:
        return None
    return Target(cast(TargetKind, kind), app, name, form, query.decode("ascii", "replace"))


REQUEST_ID: Final = 1

START: Final[dict[str, float]] = {"live": -1.0, "recordings": 0.0}
"""As play has it: what is live and nothing else, or the recording from its beginning."""


def read_caller(request: http.Request, scheme: str, target: Target) -> Caller:
    """Who asks, with its secrets masked; `connect` has what an RTMP client says in the command of that name."""
    presented = credentials.split_play(f"{target.name}?{target.query}", "")
    secret, app = presented.credential, credentials.scrub_text(target.app)
    page = request.field("Referer") or request.field("Origin")
    url = f"{scheme}://{request.field('Host')}/{target.kind}/{app}"
    properties = {
        "app": app,
        "tcUrl": url,
        "flashVer": request.field("User-Agent"),
        "pageUrl": page,
    }
    command = credentials.scrub({name: value for name, value in properties.items() if value}, secret)
    return Caller(
        app=app,
        tc_url=command["tcUrl"],
        flash_ver=command.get("flashVer", "")[:FLASH_VER_LENGTH],
        query=presented.query,
        connect={"object": command, "arguments": []},
    )


class MediaControl(ViewingSide):
    """Asks `connect` and then `play`; the connection answers by what comes of it."""

    protocol = "http"
    scope_name = "scope type 'rtmp' and a viewer"
    connection: MediaConnection

    def __init__(self, connection: MediaConnection) -> None:
        super().__init__(connection)
        self._target: Target | None = None
        self._start_ms: int | None = None
        """Of a recording; None: from its beginning, the file as it is."""
        self._wanted = Wanted()

    def connect_requested(self, request: http.Request, now: float) -> None:
        connection = self.connection
        try:
            target = read_target(request.head.target)
        except UnreadableTarget:
            connection.refuse_unreadable(http.UNREADABLE)
            return
        if target is None:
            connection.refuse(http.NOTHING_HERE)
        elif request.method == "OPTIONS":
            connection.refuse(http.PREFLIGHT)
        elif connection.server.draining:
            connection.refuse(http.STOPPING)
        else:
            try:
                self._start_ms = start_of(target)
            except UnreadableTarget:
                connection.refuse(http.WRONG_START)
            else:
                self._ask_for(target, request, now)

    def _ask_for(self, target: Target, request: http.Request, now: float) -> None:
        if request.upgrades:
            try:
                self.connection.upgrade(request)
            except http.UnusableUpgrade:
                self.connection.refuse_unreadable(http.UNUSABLE_UPGRADE)
                return
        else:
            self._wanted = Wanted(*(request.field(name) for name in ("Range", "If-Range", "If-None-Match")))
        self._target, self.caller = target, read_caller(request, self.connection.scheme, target)
        self.open()
        message: ConnectEvent = {"type": "rtmp.connect", "credential": "", "login": None}
        self.ask("connect", message, now, request_id=REQUEST_ID)

    def sweep(self, deadlines: Deadlines, now: float) -> None:
        self.refuse_overdue(now)
        self.connection.sweep(deadlines, now)

    def lost(self) -> None:
        if self.driver or self.connection.is_attempt:
            super().lost()
        else:
            self.connection.forget()

    def refuse(self, request: Request, code: str, description: str, *, passes: bool = False) -> None:
        self.connection.refuse(refusal(code, description, passes=passes), f"{code}: {description}")

    def _accept(self, _request: Request, _message: Message) -> None:
        target = self._target
        if target:
            name = f"{target.name}?{target.query}"
            wanted = PlayRequested(REQUEST_ID, STREAM_ID, name, START[target.kind], duration=-1.0, reset=True)
            self.ask("play", play_event(wanted, ""), self.connection.loop.time())

    def _challenge(self, request: Request, _message: Message) -> None:
        self.refuse(request, "NetConnection.Connect.Rejected", "Who plays can't log in here.")

    def _play_accept(self, _request: Request, message: Message) -> None:
        """What the application lets this viewer have."""
        accept: PlayAccept = message  # type: ignore[assignment]
        connection = self.connection
        if self._target and self._target.kind == "recordings":
            self._read(accept, self._target.form)
            return
        connection.respond(HTTPStatus.OK, (FLV,))
        if connection.ending:
            self.void("rtmp.stop", STREAM_ID, accept["session_id"])
            return
        if (source := accept.get("source")) is not None:
            connection.server.relays.want(accept["path"], source)
        live = connection.server.registry.get_or_create(accept["path"], accept["labels"])
        self.begin(LiveViewer(connection, accept, live), connection.loop.time())

    def _read(self, accept: PlayAccept, form: Form) -> None:
        connection, recording = self.connection, accept["recording"]
        if recording is None or (form == "mp4" and recording.get("growing", False)):
            connection.refuse(GONE if recording is None else GROWING)
            self.void("rtmp.stop", STREAM_ID, accept["session_id"])
            return
        wanted, start_ms = self._wanted, self._start_ms
        viewer = RecordingViewer(connection, accept, recording, form=form, start_ms=start_ms, wanted=wanted)
        self.begin(viewer, connection.loop.time())

    answers: ClassVar[Mapping[str, tuple[Kind, Answer]]] = {
        **ViewingSide.answers,
        "rtmp.accept": ("connect", _accept),
        "rtmp.challenge": ("connect", _challenge),
        "rtmp.play.accept": ("play", _play_accept),
    }
