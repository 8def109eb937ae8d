"""Acknowledgements and windows (RTMP 1.0, sections 5.4.3 to 5.4.5): when one is due, and whether more may be sent.

All byte counts begin after the handshake. A peer that counts its 3073 bytes too just seems to be ahead by them.
"""

from dataclasses import dataclass
from typing import Final

from ingest.rtmp.handshake import HANDSHAKE_BYTES
from ingest.rtmp.messages.control import BandwidthLimit

NEVER: Final = 1 << 63
"""More bytes than any connection sends."""

MODULUS: Final = 1 << 32
"""Of the sequence numbers."""

PROBES: Final = 2
"""How many a peer answers before it counts as one that acknowledges no more."""


@dataclass(slots=True, eq=False)
class AcknowledgementCounter:
    """What the peer sent: an Acknowledgement is due each time that `interval` bytes came (sections 5.4.3 and 5.4.4)."""

    interval: int
    """What we announced, until the peer announces its window."""
    _acknowledged: int = 0

    def is_due(self, received: int) -> bool:
        """Whether one is to be sent now that so many bytes came; if so, it counts as sent."""
        if received - self._acknowledged < self.interval:
            return False
        self._acknowledged = received
        return True


@dataclass(slots=True, eq=False)
class SendingWindow:
    """What we send: how much of it may be unacknowledged.

    The limit is what Set Peer Bandwidth says. Without one from the peer it is twice the Window Acknowledgement Size
    that we announced, as a peer acknowledges each whole window, and we should not wait for that. Before, there is none.
    A hard limit is strict: the shell sends not a byte more, of control neither. All others are met to about a message.

    Real peers acknowledge by rules of their own. So one that neither acknowledged nor set our bandwidth is not held;
    and the window is given up rather than stay closed on a peer that reads all the same:
    - one that does either of these only after the window would have closed
    - one that answers two probes (pings, the first sent behind all that closed the window, the second when that was
      answered) and does not acknowledge: the first answer proves that all was read, the second that the peer had its
      turn to acknowledge, which some take just after their answer
    - one that does neither, though TCP has delivered everything
    The shell, which has a clock, probes, and calls `give_up` for the last two. The first two are for good, as the peer
    would stall again and again. The last one was paused if it answers that probe later: the window is taken up again
    when it has acknowledged so much that it is within the limit.
    """

    sent: int = -HANDSHAKE_BYTES
    """Bytes so far; below 0 during the handshake. Whoever writes adds to it."""
    closes_at: int = NEVER
    """The window is closed when more than so many bytes were sent. One more than the limit allows, if that is not
    strict: some peers acknowledge only what is more than a window."""
    announced: int = 0
    """The Window Acknowledgement Size that we sent last; 0 before."""
    given_up: bool = False
    _acknowledged: int = 0
    _has_feedback: bool = False
    """Whether the peer ever acknowledged anything, or set our bandwidth."""
    _bandwidth: int = 0
    """From Set Peer Bandwidth; 0 without."""
    _is_hard: bool = False
    """Whether the latest limit type that counts was hard."""
    _granted: int = 0
    """So many bytes may have been sent, whatever a hard limit says: those from before it, and the answer to it, by
    which the peer knows when to acknowledge."""
    _probe: int | None = None
    _answers: int = 0
    """To probes since the window closed."""
    _late_probe: int | None = None
    """The probe that was not answered before the window was given up."""
    _has_resumed: bool = False
    """Whether it was answered since."""

    @property
    def limit(self) -> int:
        """Bytes that may be unacknowledged; 0 for any number."""
        return self._bandwidth or 2 * self.announced

    @property
    def is_strict(self) -> bool:
        """Whether `room` is all that may be sent."""
        return self._is_hard and self.closes_at < NEVER

    @property
    def room(self) -> int:
        """Bytes until the window closes."""
        return self.closes_at - self.sent + 1

    def may_send(self) -> bool:
        """Whether the window is open. Control messages go out all the same, unless it is strict, but count."""
        return self.sent <= self.closes_at

    # --- What is sent ---

    def announce(self, size: int, queued_bytes: int = 0) -> None:
        """Window Acknowledgement Size was queued; `queued_bytes`: with all before it that was not sent yet."""
        self.announced = size
        self._granted = self.sent + queued_bytes
        self._update()

    def probe(self, timestamp: int) -> None:
        """A PingRequest with this timestamp was queued, behind all that closed the window."""
        self._probe = timestamp

    @property
    def wants_probe(self) -> bool:
        """For a window that is closed: whether another probe would tell more."""
        return self._probe is None and not self.is_read

    @property
    def is_read(self) -> bool:
        """Whether the peer reads all, and acknowledges nothing: the window should be given up."""
        return self._answers == PROBES

    def give_up(self) -> None:
        """From now on the window is open: always, or until a peer that was paused has caught up."""
        self.given_up = True
        self._late_probe = self._probe
        self._update()

    # --- What is received ---

    def acknowledge(self, sequence_number: int) -> None:
        """Acknowledgement. Its 32 bits are unwrapped by serial arithmetic; one that lies behind the latest is too late
        to say anything, and one above what was sent counts as that."""
        ahead = (sequence_number - self._acknowledged) % MODULUS
        if ahead < MODULUS // 2:
            self._note_feedback()
            self._acknowledged = max(self._acknowledged, min(self._acknowledged + ahead, self.sent))
            if self._has_resumed and self.sent - self._acknowledged <= self.limit:
                self.given_up = self._has_resumed = False
            self._update()

    def answered(self, timestamp: int) -> None:
        if timestamp == self._probe:
            self._probe = None
            self._answers += 1
        elif timestamp == self._late_probe:
            self._late_probe, self._has_resumed = None, True

    def restrict(self, size: int, kind: int) -> int:
        """Set Peer Bandwidth: the Window Acknowledgement Size to answer with, 0 for none.

        A dynamic one that doesn't count is answered all the same where we announced no window yet: some servers
        acknowledge nothing before. A kind that nobody knows is taken as dynamic, a size of 0 changes nothing.
        """
        if not size:
            return 0
        if kind == BandwidthLimit.SOFT:
            self._is_hard = False
            if 0 < self.limit <= size:
                return 0
        elif kind == BandwidthLimit.HARD:
            self._is_hard = True
        elif not self._is_hard:
            return 0 if self.announced else size
        self._note_feedback()
        self._bandwidth = size
        self._update()
        return 0 if size == self.announced else size

    def _note_feedback(self) -> None:
        if not self._has_feedback:
            self._has_feedback = True
            self.given_up = self.given_up or 0 < self.limit < self.sent

    def _update(self) -> None:
        limit = self.limit
        if self.given_up or not self._has_feedback or not limit:
            self.closes_at = NEVER
        elif self._is_hard:
            self.closes_at = max(self._acknowledged + limit, self._granted) - 1
        else:
            self.closes_at = self._acknowledged + limit
        if self.sent <= self.closes_at:
            self._probe, self._answers = None, 0
