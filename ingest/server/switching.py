"""play2 from what plays to something else (section 7.2.2.2): that takes its place as soon as it can be played.

Until then both are sessions: the one that plays is its connection's, the other waits beside it. Flash Media Server's
statuses: Play.Transition once it is accepted, onPlayStatus with Play.TransitionComplete when it begins, and Play.Failed
if it doesn't come; what plays goes on then.
"""

from ingest.contracts import EndReason
from ingest.rtmp import status
from ingest.server.player import Player


class Switch:
    """From its accept to the beginning of the new one, or to its failure."""

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
        """The new one can begin, or the old one is over."""
        old, new, connection = self.old, self.new, self.new.connection
        old.switch = new.switch = None
        connection.rtmp.send_play_status(new.stream_id, status.PLAY_TRANSITION_COMPLETE, details=self._name)
        new.take_over(old, now)
        connection.end_session(old, "completed", f"The client switched to {self._name}.", now, tell=False)
        connection.sessions[new.stream_id] = new
        connection.process((), now)

    def look(self, now: float) -> None:
        """To be asked now and then."""
        if now >= self._deadline:
            why = f"{self._name} has sent nothing to begin with. What plays goes on."
            self.give_up("idle_timeout", why, now, tell=True)

    def give_up(self, reason: EndReason, description: str, now: float, *, tell: bool = False) -> None:
        """The new one ends before it began. `tell`: the client, for whom what plays goes on."""
        old, new, connection = self.old, self.new, self.new.connection
        old.switch = new.switch = None
        connection.server.sessions.pop(new.session_id, None)
        totals = new.stop(now)
        if tell:
            connection.rtmp.send_status(new.stream_id, "error", status.PLAY_FAILED, description)
            connection.collect_statuses(now)
        connection.control.session_ended(new, reason, description, totals)
        if tell:
            connection.process((), now)
