"""What the two ends of a NetConnection have called of one another, until it is answered (RTMP 1.0, section 7.2.1.2)."""

from abc import abstractmethod
from typing import Any, Final

from ingest.rtmp.chunk_writer import CSID_COMMAND
from ingest.rtmp.errors import LocalProtocolError
from ingest.rtmp.events import CallReceived, Event, ResultReceived
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import Message
from ingest.rtmp.messages.commands import Command, encode_command
from ingest.rtmp.status import CALL_FAILED, info_object, level_of

ANSWERS: Final = frozenset({"_result", "_error", "onStatus"})
"""Commands that are never answered, lest two ends answer one another for ever."""

NO_PROCEDURE: Final = "There is no such procedure."
TOO_MANY: Final = "Too many calls await their answers."
NAME_TOO_LONG: Final = "The procedure's name is too long."


class Calls:
    """Of one end: what it called, by transaction id, and what it was called with, by request id."""

    __slots__ = ("_last_request_id", "_last_transaction", "_limits", "_made", "_received")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._made: dict[float, str] = {}
        self._last_transaction = 0
        self._received: dict[int, float] = {}
        self._last_request_id = 0

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


class CallMixin:
    __slots__ = ()

    answers_calls = False
    """Whether the shell answers CallReceived, by `answer_call` or `fail_call`. Else each is refused at once."""

    amf3: bool
    limits: Limits
    calls: Calls

    # --- Of the peer's ---

    def _on_call(self, stream_id: int, command: Command) -> None:
        """A procedure that is none of the protocol's (section 7.2.1.2). It doesn't hold the connection up."""
        if command.name in ANSWERS:
            return
        if len(command.name) > self.limits.procedure_name_characters:
            self.refuse_call(command, NAME_TOO_LONG)
            return
        request_id = self.expect_answer(command) if self.answers_calls else 0
        if request_id is None:
            self.refuse_call(command, TOO_MANY)
            return
        self.report(
            CallReceived(
                request_id,
                stream_id,
                command.name,
                command.transaction,
                command.command_object,
                command.arguments,
            )
        )
        if not self.answers_calls:
            self.refuse_call(command, NO_PROCEDURE)

    def expect_answer(self, command: Command) -> int | None:
        """The request id under which the shell answers; 0: no answer is wanted; None: too many are awaited."""
        return self.calls.receive(command.transaction) if command.answered else 0

    def refuse_call(self, command: Command, description: str) -> None:
        if command.answered:
            info = info_object(level_of(CALL_FAILED), CALL_FAILED, description)
            self.send_command(0, "_error", command.transaction, None, info)

    def answer_call(self, request_id: int, *values: Any) -> None:
        """The answer to CallReceived, or to LengthRequested. LocalProtocolError: the values can't be sent; it still
        awaits an answer."""
        self._answer(request_id, "_result", *values)

    def fail_call(self, request_id: int, code: str, description: str) -> None:
        self._answer(request_id, "_error", info_object("error", code, description))

    def _answer(self, request_id: int, name: str, *values: Any) -> None:
        command = Command(name, self.calls.transaction_of(request_id), None, list(values))
        try:
            message = encode_command(command, amf3=self.amf3)
        except RecursionError as error:
            raise LocalProtocolError("values nested too deep") from error
        if len(message.payload) > self.limits.call_result_bytes:
            raise LocalProtocolError(f"a result of more than {self.limits.call_result_bytes} bytes")
        self.calls.complete_received(request_id)
        self._queue(message, CSID_COMMAND)

    # --- Our own ---

    def call(self, procedure: str, *arguments: Any, stream_id: int = 0, command_object: Any = None) -> float:
        """Any procedure of the peer's: ResultReceived tells its answer by the transaction id that this gives."""
        self.require_open()
        return self._call(stream_id, procedure, command_object, *arguments)

    def notify(self, procedure: str, *arguments: Any, stream_id: int = 0) -> None:
        """A call with transaction id 0, which wants no answer."""
        self.require_open()
        self.send_command(stream_id, procedure, 0, None, *arguments)

    def _call(self, stream_id: int, procedure: str, command_object: Any, *arguments: Any) -> float:
        transaction = self.calls.start(procedure)
        try:
            self.send_command(stream_id, procedure, transaction, command_object, *arguments)
        except LocalProtocolError:
            self.calls.cancel(transaction)
            raise
        return transaction

    def _on_result(self, stream_id: int, command: Command) -> None:
        procedure = self.calls.complete(command.transaction)
        if procedure is None:
            return
        succeeded = command.name == "_result"
        if procedure == "connect":
            self._on_connected(succeeded, command)
        values = [command.command_object, *command.arguments]
        self.report(ResultReceived(procedure, command.transaction, succeeded, values))

    def _on_connected(self, succeeded: bool, command: Command) -> None:
        """The answer to our `connect`."""

    # --- Of the connection ---

    @abstractmethod
    def require_open(self) -> None: ...

    @abstractmethod
    def report(self, event: Event) -> None: ...

    @abstractmethod
    def send_command(
        self, stream_id: int, name: str, transaction: float, command_object: Any, *arguments: Any
    ) -> None: ...

    @abstractmethod
    def _queue(self, message: Message, chunk_stream_id: int) -> None: ...


RESULT_HANDLERS: Final = {"_result": CallMixin._on_result, "_error": CallMixin._on_result}
"""Rows of `Connection.commands`."""
