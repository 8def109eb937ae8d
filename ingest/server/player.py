"""What a message stream that plays can be asked for while it does."""

from typing import Any, Literal, Protocol

from ingest.contracts import EndReason, PlayerSample, Totals
from ingest.server.endings import PLAYER_STATUS, Status
from ingest.server.ports import Link, Session
from ingest.server.sockets import be_patient


class Transition(Protocol):
    """From one player to another: see `switching`."""

    old: "Player"
    new: "Player"

    def complete(self, now: float) -> None: ...

    def look(self, now: float) -> None: ...

    def give_up(self, reason: EndReason, description: str, now: float, *, tell: bool = False) -> None: ...


class Finished(Protocol):
    def __call__(self, player: "Player", now: float, *, failure: Status | None = None, detail: str = "") -> None:
        """All of it was sent; or, with what the client is to be told and the operator, no more can be."""


class Player:
    """A play session, of a live stream or of a recording, from its accept to its end.

    What is asked for is answered by its statuses; False: it can't be done here, and the client is told so.
    """

    __slots__ = (
        "connection",
        "is_complete",
        "path",
        "paused_since",
        "session_id",
        "stream_id",
        "switch",
    )

    event = "rtmp.stop"

    def __init__(self, connection: Link, stream_id: int, session_id: str, path: str) -> None:
        self.connection = connection
        self.stream_id = stream_id
        self.session_id = session_id
        self.path = path
        self.is_complete = False
        """All of it was sent, and the client told so. It may still want to go back."""
        self.switch: Transition | None = None
        """While the client goes over from it to another one, or from another one to it."""
        self.paused_since: float | None = None
        """When its client said that it pauses; None: it does not."""

    @property
    def paused(self) -> bool:
        return self.paused_since is not None

    def start(self, now: float) -> None:
        raise NotImplementedError

    def stop(self, now: float) -> Totals:
        raise NotImplementedError

    def resume(self) -> None:
        """The peer takes media again."""
        raise NotImplementedError

    def look(self, now: float) -> None:
        """Four times a second: what time alone brings about."""
        if self.switch:
            self.switch.look(now)

    def stay(self, now: float) -> bool:
        """All of it was sent. Whether the session stays, for a client that goes back in it."""
        return False

    def completion(self) -> dict[str, Any]:
        """What Play.Complete says of it."""
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

    def sample(self) -> PlayerSample | None:
        """For the node's tick, of those that no live stream tells of."""
        return None

    def status_of(self, reason: EndReason) -> Status | None:
        return PLAYER_STATUS.get(reason)

    def _tell(self, now: float, *statuses: Status) -> None:
        for each in statuses:
            self.connection.rtmp.send_status(self.stream_id, *each)
        self.connection.collect_statuses(now)

    def _note_pause(self, paused: bool, now: float) -> None:
        """The client has said so. It may cease to read meanwhile, and to answer (see `deadlines`)."""
        if not paused:
            self.paused_since = None
        elif self.paused_since is None:
            self.paused_since = now
            be_patient(self.connection.transport.get_extra_info("socket"))

    def pause(self, paused: bool, at_ms: float, now: float) -> bool:
        """`at_ms`: of the client's time, where it pauses or wants to go on."""
        return False

    def seek(self, at_ms: float, now: float) -> bool:
        return False

    def receive(self, kind: Literal["audio", "video"], wanted: bool, now: float) -> bool:
        return False

    def set_buffer(self, length_ms: int) -> None:
        """How much the client wants to have ahead; only recordings can be sent ahead."""


def is_complete(session: Session) -> bool:
    return isinstance(session, Player) and session.is_complete
