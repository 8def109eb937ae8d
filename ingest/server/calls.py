"""Calls across a connection's ASGI border: the client's to the application, and the application's to the client.

Neither holds the connection up: media and commands go on while an answer is awaited.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ingest import credentials
from ingest.contracts import CallError, CallEvent, CallResult, Invoke, InvokeResult, LengthEvent, LengthResult
from ingest.log_records import about
from ingest.rtmp import LocalProtocolError, Phase, events
from ingest.rtmp.status import CALL_FAILED
from ingest.server.connection import Connection
from ingest.server.relay_playing import AUDIENCE, RelayPlaying

logger = logging.getLogger(__name__)

NO_ANSWER: Final = "The server did not answer in time."
TOO_OFTEN: Final = "Too many lengths were asked for. Try again later."
NOT_SENDABLE: Final = "The procedure's result can't be sent."


@dataclass(eq=False, repr=False, slots=True)
class Calls:
    _connection: Connection
    _put: Callable[..., None]
    _asked: dict[int, asyncio.TimerHandle] = field(default_factory=dict)
    """By request id: until when the application may answer."""
    _invoked: dict[float, tuple[int, asyncio.TimerHandle]] = field(default_factory=dict)
    """By transaction id: the application's request id, and until when the client may answer."""

    # --- The client calls ---

    def called(self, event: events.CallReceived) -> None:
        connection, secrets, rtmp = self._connection, self._secrets, self._connection.rtmp
        if connection.ending:
            return
        message: CallEvent = {
            "type": "rtmp.call",
            "request_id": event.request_id or None,
            "stream_id": event.stream_id,
            "procedure": credentials.scrub_text(event.procedure, *secrets),
            "command_object": credentials.scrub(event.command_object, *secrets),
            "arguments": credentials.scrub(event.arguments, *secrets),
        }
        if event.request_id:
            self._await_answer(event.request_id, rtmp.fail_call, CALL_FAILED, NO_ANSWER)
        self._put(message, droppable=not event.request_id)

    def length_requested(self, event: events.LengthRequested) -> None:
        connection = self._connection
        if connection.ending:
            return
        if not connection.control.throttle.take(connection.loop.time()):
            connection.rtmp.fail_call(event.request_id, CALL_FAILED, TOO_OFTEN)
            return
        presented = credentials.split_play(event.name, connection.control.caller.credential)
        self._secrets.add(presented.credential)
        message: LengthEvent = {
            "type": "rtmp.length",
            "request_id": event.request_id,
            "name": presented.name,
            "credential": presented.credential,
            "query": presented.query,
        }
        self._await_answer(event.request_id, connection.rtmp.answer_call, 0.0)
        self._put(message)

    def result(self, message: CallResult) -> None:
        self._answer(message["request_id"], self._answer_result, message["value"])

    def error(self, message: CallError) -> None:
        self._answer(message["request_id"], self._connection.rtmp.fail_call, message["code"], message["description"])

    def length(self, message: LengthResult) -> None:
        self._answer(message["request_id"], self._connection.rtmp.answer_call, float(message["seconds"]))

    def _await_answer(self, request_id: int, otherwise: Callable[..., None], *values: Any) -> None:
        connection = self._connection
        limit_s = connection.server.config.deadlines.call_s
        timer = connection.loop.call_later(limit_s, self._answer, request_id, otherwise, *values)
        self._asked[request_id] = timer

    def _answer(self, request_id: int, respond: Callable[..., None], *values: Any) -> None:
        """Once, if somebody still waits."""
        timer = self._asked.pop(request_id, None)
        if timer is None:
            return
        timer.cancel()
        if self._connection.ending is None and not self._connection.lost:
            respond(request_id, *values)
            self._connection.write_control()

    def _answer_result(self, request_id: int, value: Any) -> None:
        connection = self._connection
        try:
            connection.rtmp.answer_call(request_id, value)
        except LocalProtocolError as error:
            with about(client=connection.peer[0]):
                logger.error("The result of a procedure can't be sent to its caller: %s.", error)
            connection.rtmp.fail_call(request_id, CALL_FAILED, NOT_SENDABLE)
        else:
            connection.has_activity = True

    # --- The application calls ---

    def invoke(self, message: Invoke) -> None:
        connection, request_id = self._connection, message["request_id"]
        rtmp, procedure, arguments = connection.rtmp, message["procedure"], message["arguments"]
        limit = connection.server.config.limits.calls
        if connection.lost:
            return
        if connection.ending or rtmp.phase is not Phase.CONNECTED or len(self._invoked) >= limit:
            self._put_result(request_id, False, [])
            return
        try:
            if request_id is None:
                rtmp.notify(procedure, *arguments)
            else:
                transaction = rtmp.call(procedure, *arguments)
                timer = connection.loop.call_later(
                    connection.server.config.deadlines.invoke_s, self._unanswered, transaction
                )
                self._invoked[transaction] = (request_id, timer)
        except LocalProtocolError as error:
            with about(client=connection.peer[0]):
                logger.error("A call to a client can't be sent: %s.", error)
            self._put_result(request_id, False, [])
            return
        connection.write_control()

    def invoked(self, event: events.ResultReceived) -> None:
        awaited = self._invoked.pop(event.transaction, None)
        if awaited:
            request_id, timer = awaited
            timer.cancel()
            self._put_result(request_id, event.succeeded, credentials.scrub(event.values, *self._secrets))

    def _unanswered(self, transaction: float) -> None:
        awaited = self._invoked.pop(transaction, None)
        if awaited:
            self._connection.rtmp.calls.cancel(transaction)
            self._put_result(awaited[0], False, [])

    def _put_result(self, request_id: int | None, succeeded: bool, values: list[Any]) -> None:
        if request_id is not None:
            result: InvokeResult = {
                "type": "rtmp.invoke.result",
                "request_id": request_id,
                "succeeded": succeeded,
                "values": values,
            }
            self._put(result)

    # --- Both ---

    def lost(self) -> None:
        for timer in self._asked.values():
            timer.cancel()
        self._asked.clear()
        for transaction, (_, timer) in list(self._invoked.items()):
            timer.cancel()
            self._unanswered(transaction)

    @property
    def _secrets(self) -> credentials.Secrets:
        return self._connection.control.secrets


CALLS: Final[dict[str, Callable[[Any, Any], None]]] = {
    "rtmp.result": lambda control, message: control.calls.result(message),
    "rtmp.error": lambda control, message: control.calls.error(message),
    "rtmp.length.result": lambda control, message: control.calls.length(message),
    "rtmp.invoke": lambda control, message: control.calls.invoke(message),
}


def _called(connection: Any, event: events.CallReceived, _now: float) -> None:
    session = connection.sessions.get(event.stream_id)
    if isinstance(session, RelayPlaying) and event.procedure == AUDIENCE:
        session.told(event.arguments)
    else:
        connection.control.calls.called(event)


def _close_requested(connection: Connection, event: events.CloseRequested, now: float) -> None:
    connection.end("client_unpublish", "The client sent close.", notify=False, linger_s=0)


CALL_EVENTS: Final[dict[type, Callable[[Any, Any, float], None]]] = {
    events.CallReceived: _called,
    events.LengthRequested: lambda connection, event, now: connection.control.calls.length_requested(event),
    events.ResultReceived: lambda connection, event, now: connection.control.calls.invoked(event),
    events.CloseRequested: _close_requested,
}
