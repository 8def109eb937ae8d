"""What the two ends of a NetConnection have called of one another, until it is answered (RTMP 1.0, section 7.2.1.2)."""

from dataclasses import dataclass, field
from typing import Final

from ingest.rtmp.errors import LocalProtocolError
from ingest.rtmp.limits import Limits

ANSWERS: Final = frozenset({"_result", "_error", "onStatus"})
"""Commands that are never answered, lest two ends answer one another for ever."""

NO_PROCEDURE: Final = "There is no such procedure."
TOO_MANY: Final = "Too many calls await their answers."
NAME_TOO_LONG: Final = "The procedure's name is too long."


@dataclass(slots=True, eq=False)
class Calls:
    """Of one end: what it called, by transaction id, and what it was called with, by request id."""

    _limits: Limits
    _made: dict[float, str] = field(default_factory=dict)
    _last_transaction: int = 0
    _received: dict[int, float] = field(default_factory=dict)
    _last_request_id: int = 0

    def start(self, procedure: str) -> float:
        """The transaction id of a call that wants an answer. The oldest beyond `Limits.calls` is forgotten."""
        self._last_transaction += 1
        self._made[self._last_transaction] = procedure
        if len(self._made) > self._limits.calls:
            del self._made[next(iter(self._made))]
        return self._last_transaction

    def complete(self, transaction: float) -> str | None:
        """What was called. None: nothing, as some ends answer calls that wanted no answer."""
        return self._made.pop(transaction, None)

    def cancel(self, transaction: float) -> None:
        """Nobody waits for its answer any more."""
        self._made.pop(transaction, None)

    def receive(self, transaction: float) -> int | None:
        """The request id under which a call of the peer's is answered. None: `Limits.pending_calls` are awaiting it."""
        if len(self._received) >= self._limits.pending_calls:
            return None
        self._last_request_id += 1
        self._received[self._last_request_id] = transaction
        return self._last_request_id

    def transaction_of(self, request_id: int) -> float:
        transaction = self._received.get(request_id)
        if transaction is None:
            raise LocalProtocolError(f"no call {request_id} awaits an answer")
        return transaction

    def complete_received(self, request_id: int) -> None:
        del self._received[request_id]
