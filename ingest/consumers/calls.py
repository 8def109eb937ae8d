"""Calls both ways: the client's of procedures that the project has registered, and the project's of the client."""

import asyncio
import logging
import traceback
from typing import Any

from ingest import clean, clock, procedures
from ingest.consumers import decisions, login
from ingest.consumers.base import in_task
from ingest.consumers.login import Connecting
from ingest.contracts import CallEvent, InvokeResult, LengthEvent
from ingest.log_records import Bound
from ingest.procedures import CallContext, CallError, Procedure
from ingest.rtmp.calls import NO_PROCEDURE, TOO_MANY
from ingest.rtmp.status import CALL_FAILED
from ingest.services import database, playback
from ingest.services.refusals import Refused

logger = logging.getLogger(__name__)

MAX_RUNNING = 32
"""Procedures that run for one connection at once, those that give no answer among them."""

LENGTHS: decisions.Together[float] = decisions.Together()

FAILURES = Bound(10)
"""Lines a second about procedures that failed: who calls them may be anybody."""

FAILED = "The procedure failed."
TOO_SLOW = "The procedure took too long."


class Calls(Connecting):
    def __init__(self) -> None:
        super().__init__()
        self.running = 0
        self.served = False
        """Whether it was answered something, though it neither published nor played."""
        self._last_request_id = 0
        self._invoked: dict[int, str] = {}
        """By request id: the channel that waits for the client's answer."""
        self._length = asyncio.Lock()
        """One at a time: who asks for many takes no places of others'."""

    @property
    def call_context(self) -> CallContext:
        return CallContext(
            app=self.app,
            instance=self.instance,
            address=self.scope["client"][0],
            node=self.scope["node"],
            flash_ver=self.scope["flash_ver"],
            sessions=tuple(session.id for session in self.streams.values()),
            authenticated=self.authenticated,
        )

    # --- The client calls ---

    async def rtmp_call(self, event: CallEvent) -> None:
        procedure = procedures.find(event["procedure"])
        if procedure is None:
            await self._fail(event, NO_PROCEDURE)
        elif self.running >= MAX_RUNNING:
            await self._fail(event, TOO_MANY)
        else:
            self.running += 1
            self.spawn(self._run(procedure, event))

    async def _run(self, procedure: Procedure, event: CallEvent) -> None:
        try:
            async with asyncio.timeout(procedure.limit_s) as limit:
                value = await procedure.function(self.call_context, *event["arguments"])
        except CallError as error:
            await self._fail(event, error.description, error.code)
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                _log_failure(procedure, f"it took longer than {procedure.limit_s:g} s", None)
                await self._fail(event, TOO_SLOW)
            else:
                _log_failure(procedure, type(error).__name__, error)
                await self._fail(event, FAILED)
        else:
            self.served = True
            if event["request_id"] is not None:
                await self.send({"type": "rtmp.result", "request_id": event["request_id"], "value": value})
        finally:
            self.running -= 1

    async def _fail(self, event: CallEvent, description: str, code: str = CALL_FAILED) -> None:
        if event["request_id"] is not None:
            await self.send(
                {
                    "type": "rtmp.error",
                    "request_id": event["request_id"],
                    "code": code,
                    "description": description,
                }
            )

    # --- The client asks for a length ---

    @in_task
    async def rtmp_length(self, event: LengthEvent) -> None:
        async with self._length:
            seconds = await self._read_length(event)
        await self.send({"type": "rtmp.length.result", "request_id": event["request_id"], "seconds": seconds})

    async def _read_length(self, event: LengthEvent) -> float:
        """0 for what may not be played: `play`, which follows, tells why and is recorded."""
        app, name, credential = self.app, self.named(event["name"]), event["credential"]

        def read() -> float:
            return playback.play_length_s(
                app=app, name=name, credential=credential, now=clock.utc_now(), shared_now=database.shared_now()
            )

        async def decide(deadline: float) -> float:
            if credential:
                login.refuse_banned("play", self.scope["client"][0])
            return await LENGTHS.ask((app, name, credential), read, deadline)

        try:
            return await decisions.decide_or_refuse("play", decide)
        except Refused as refused:
            await login.delay_wrong_secret(refused, self.peer, credential)
            return 0.0

    # --- The project calls ---

    async def session_invoke(self, message: dict[str, Any]) -> None:
        """From the channel layer: see `ingest.procedures`."""
        reply = message["reply"]
        request_id = None
        if reply:
            request_id = self._last_request_id = self._last_request_id + 1
            self._invoked[request_id] = reply
        await self.send(
            {
                "type": "rtmp.invoke",
                "request_id": request_id,
                "procedure": message["procedure"],
                "arguments": message["arguments"],
            }
        )

    async def rtmp_invoke_result(self, event: InvokeResult) -> None:
        reply = self._invoked.pop(event["request_id"], None)
        if reply is None:
            return
        answer = {
            "type": "invoke.answer",
            "succeeded": event["succeeded"],
            "values": clean.jsonable(event["values"]),
        }
        try:
            await self.channel_layer.send(reply, answer)
        except Exception as error:
            logger.warning("The channel layer did not take a client's answer: %s", type(error).__name__)


def _log_failure(procedure: Procedure, why: str, error: Exception | None) -> None:
    """Where it failed, without what the error says: that may quote the arguments, and secrets in them."""
    left_out = FAILURES.take()
    if left_out is not None:
        logger.error(
            "The procedure %s failed: %s%s%s",
            procedure.name,
            why,
            f" (and {left_out} more failures since the last such line)" if left_out else "",
            "\n" + "".join(traceback.format_tb(error.__traceback__)).rstrip() if error else "",
        )
