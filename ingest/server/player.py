"""One message stream that plays, whatever it is: what it can be asked for, and how it goes over to something else."""

from collections.abc import Callable
from typing import Any, Literal

from ingest.contracts import EndReason, PlayAccept
from ingest.rtmp.status import PLAY_FAILED, PLAY_TRANSITION_COMPLETE
from ingest.server.asgi import ENDS, Status
from ingest.server.connection import Connection
from ingest.server.context import Session
from ingest.server.sockets import relax_keepalive


class Player(Session[Connection]):
    """A play session, of a live stream or of a recording, from its accept to its end.

    What is asked for is answered by its statuses; False: it can't be done here, and the client is told so.
    """

    __slots__ = ("_finished", "paused_since", "switch")

    def __init__(
        self, connection: Connection, stream_id: int, accept: PlayAccept, finished: Callable[..., None]
    ) -> None:
        """`finished`: see `play_requests.finished`."""
        super().__init__(connection, stream_id, accept["session_id"], accept["path"])
        self._finished = finished
        self.switch: Switch | None = None
        """While the client goes over from it to another one, or from another one to it."""
        self.paused_since: float | None = None
        """When its client said that it pauses; None: it does not."""

    def before_stop(self, reason: EndReason, description: str, now: float) -> None:
        if self.switch:
            self.switch.give_up(reason, description, now)

    def gives_up(self, reason: EndReason, description: str, now: float) -> bool:
        if self.switch is None or self.switch.new is not self:
            return False
        self.switch.give_up(reason, description, now, notify=True)
        return True

    def check_deadlines(self, now: float) -> None:
        if self.switch:
            self.switch.check_deadline(now)

    def stay(self, now: float) -> bool:
        """All of it was sent. Whether the session stays, for a client that goes back in it."""
        return False

    def completion(self) -> dict[str, Any]:
        return {}

    def reached(self, now: float) -> int | None:
        """The client's time up to which it was sent media, 32 bits, ms; None: it was sent none."""
        return None

    def stand_by(self, now: float) -> None:
        """It is to take another's place, at once or as soon as it can; then `switch.complete`."""
        if self.switch:
            self.switch.complete(now)

    def take_over(self, former: "Player", now: float) -> None:
        """Begin in the place of another, and go on with the client's time."""
        self.start(now)

    def status_of(self, reason: EndReason) -> Status | None:
        return ENDS[reason].player

    def _send(self, now: float, *statuses: Status) -> None:
        for each in statuses:
            self.connection.rtmp.send_status(self.stream_id, *each)
        self.connection.collect_statuses(now)

    def _note_pause(self, paused: bool, now: float) -> None:
        """The client has said so. It may cease to read meanwhile, and to answer (see `deadlines`)."""
        if not paused:
            self.paused_since = None
        elif self.paused_since is None:
            self.paused_since = now
            relax_keepalive(self.connection.transport.get_extra_info("socket"))

    def pause(self, paused: bool, at_ms: float, now: float) -> bool:
        """`at_ms`: of the client's time, where it pauses or wants to go on."""
        return False

    def seek(self, at_ms: float, now: float) -> bool:
        return False

    def receive(self, kind: Literal["audio", "video"], wanted: bool, now: float) -> bool:
        return False

    def set_buffer(self, length_ms: int) -> None:
        """How much the client wants to have ahead; only recordings can be sent ahead."""


class Switch:
    """play2 from what plays to something else (section 7.2.2.2), from its accept to the beginning of the new one, or to
    its failure.

    That takes its place as soon as it can be played. Until then both are sessions: the one that plays is its
    connection's, the other waits beside it. Flash Media Server's statuses: Play.Transition once it is accepted,
    onPlayStatus with Play.TransitionComplete when it begins, and Play.Failed if it doesn't come; what plays goes on.
    """

    def __init__(self, old: Player, new: Player, name: str, deadline: float) -> None:
        """`name`: as the client is told it; `deadline`: when the new one has to be there."""
        self.old = old
        self.new = new
        self._name = name
        self._deadline = deadline

    def begin(self, now: float) -> None:
        old, new = self.old, self.new
        if old.switch:
            old.switch.give_up("client_unpublish", "The client switched to something else.", now)
        old.switch = new.switch = self
        new.connection.server.sessions[new.session_id] = new
        new.stand_by(now)

    def complete(self, now: float) -> None:
        old, new, connection = self.old, self.new, self.new.connection
        old.switch = new.switch = None
        connection.rtmp.send_play_status(new.stream_id, PLAY_TRANSITION_COMPLETE, details=self._name)
        new.take_over(old, now)
        connection.end_session(old, "completed", f"The client switched to {self._name}.", now, notify=False)
        connection.sessions[new.stream_id] = new
        connection.process((), now)

    def check_deadline(self, now: float) -> None:
        if now >= self._deadline:
            why = f"{self._name} has sent nothing to begin with. What plays goes on."
            self.give_up("idle_timeout", why, now, notify=True)

    def give_up(self, reason: EndReason, description: str, now: float, *, notify: bool = False) -> None:
        """The new one ends before it began. `notify`: the client, for whom what plays goes on."""
        old, new, connection = self.old, self.new, self.new.connection
        old.switch = new.switch = None
        connection.server.sessions.pop(new.session_id, None)
        totals = new.stop(now)
        if notify:
            connection.send_status(new.stream_id, Status("error", PLAY_FAILED, description), now)
        connection.control.session_ended(new, reason, description, totals)
        if notify:
            connection.process((), now)
