"""Answers that clients have yet to take: how much of them the process holds, and who goes when it is too much."""

import logging
from collections import Counter, deque
from collections.abc import Callable

from ingest.addresses import unit_or_itself
from ingest.logbound import Bound, more

logger = logging.getLogger(__name__)

MIB = 1024 * 1024
PIECE_BYTES = 64 * 1024
"""What a connection is handed at a time. Its transport is full with one or two of them."""

CUT = Bound(1, 10.0)
"""Lines about connections that were closed: clients can have any number of them."""


class Outbox:
    """What a connection has yet to be handed, in pieces, so that what was taken is no longer held."""

    def __init__(self, answers: "Answers", address: str, cut: Callable[[], None]) -> None:
        """`cut` closes the connection, and drops this."""
        self.address = address
        self.unit = unit_or_itself(address)
        self.cut = cut
        self._answers = answers
        self._pieces: deque[bytes] = deque()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def put(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE_BYTES):
            self._pieces.append(data[at : at + PIECE_BYTES])
        self._answers.count(self, len(data))

    def take(self) -> bytes:
        """The next piece; b"" when there is none."""
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        self._answers.count(self, -len(piece))
        return piece

    def drop(self) -> None:
        size_bytes = sum(map(len, self._pieces))
        self._pieces.clear()
        self._answers.count(self, -size_bytes)


class Answers:
    """All outboxes. Over the bound the address that has the most yet to take loses the one that stands still longest:
    who reads, be it slowly, is not who fills it.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._waiting: dict[Outbox, None] = {}
        """That hold something; whose client took something last stands last."""
        self._by_unit: Counter[str] = Counter()
        self.held_bytes = 0

    def count(self, outbox: Outbox, size_bytes: int) -> None:
        """So much more, or less, is held for this one."""
        self.held_bytes += size_bytes
        self._by_unit[outbox.unit] += size_bytes
        if not self._by_unit[outbox.unit]:
            del self._by_unit[outbox.unit]
        if size_bytes < 0:
            self._waiting.pop(outbox, None)
        if outbox:
            self._waiting.setdefault(outbox)

    def make_room(self, latest: Outbox) -> None:
        """Cuts off others than this one while too much is held: one answer may be longer than the bound."""
        while self.held_bytes > self._limit_bytes:
            others = [outbox for outbox in self._waiting if outbox is not latest]
            if not others:
                break
            worst = max(others, key=lambda outbox: self._by_unit[outbox.unit])  # Of equals it is the first.
            left_out = CUT.take()
            if left_out is not None:
                logger.warning(
                    "http %s: connection closed, as it does not take its answer, and clients have %d MiB of theirs yet "
                    "to take. Block the address if it goes on%s",
                    worst.address,
                    self._limit_bytes // MIB,
                    more(left_out) or ".",
                )
            worst.cut()
