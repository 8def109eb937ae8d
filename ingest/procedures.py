"""Calls both ways (NetConnection.call, RTMP 1.0, section 7.2.1.2): procedures that clients may call, as a project
registers them, and `invoke` and `notify`, by which the project calls what clients have.

    # procedures.py of any installed app
    from ingest.procedures import CallContext, CallError, procedure

    @procedure
    async def viewers(context: CallContext, name: str) -> int:
        if name not in KNOWN:
            raise CallError("Viewers.Unknown", "There is no such stream.")
        return await count(context.app, name)

The function is called with the context and the arguments, which are AMF values: texts, numbers, booleans, None, lists,
dicts, dates. What it returns goes back to the caller, and may be any of these. It runs in the event loop that carries
the media: it must not block, so work that takes time belongs into `asgiref.sync.sync_to_async` or a task of Celery.

A call of what a client has goes by the connection of a session, on whichever node that is."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

from channels.layers import get_channel_layer

from ingest.models import Session
from ingest.rtmp import ServerConnection
from ingest.rtmp.status import CALL_FAILED

LIMIT_S: Final = 5.0
"""For a procedure that says no limit of its own."""


@dataclass(frozen=True, slots=True)
class CallContext:
    app: str
    """The application that it connected to,"""
    instance: str
    """and its instance; "": none."""
    address: str
    node: str
    flash_ver: str
    sessions: tuple[uuid.UUID, ...]
    """What it publishes and plays now."""
    authenticated: bool
    """Whether it has shown by a key, a token or a log-in that it may do more than anybody. Else nothing but that there
    is such an application has been checked."""


class CallError(Exception):
    """The call fails with this code and description, which the client is sent (up to LONGEST characters)."""

    LONGEST: Final = 1024

    def __init__(self, code: str = CALL_FAILED, description: str = "") -> None:
        super().__init__(f"{code}: {description}")
        self.code = code[: self.LONGEST]
        self.description = description[: self.LONGEST]


Function = Callable[..., Awaitable[Any]]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True, slots=True)
class Procedure:
    name: str
    function: Function
    limit_s: float
    """Seconds until a call of it has failed, and is cancelled. After `Deadlines.call_s` (15 s) nobody waits for it."""


_registered: dict[str, Procedure] = {}


@overload
def procedure(name: F) -> F: ...
@overload
def procedure(name: str = "", *, limit_s: float = LIMIT_S) -> Callable[[F], F]: ...
def procedure(name: Any = "", *, limit_s: float = LIMIT_S) -> Any:
    """Registers an async function, under its own name if none is given. ValueError: the name is taken."""
    if callable(name):
        return _register(name, name.__name__, LIMIT_S)
    return lambda function: _register(function, name or function.__name__, limit_s)


def _register(function: F, name: str, limit_s: float) -> F:
    if name in ServerConnection.commands:
        raise ValueError(f"{name!r} is a command of RTMP's own: no procedure can have its name.")
    known = _registered.get(name)
    if known is not None and known.function is not function:
        raise ValueError(f"There is a procedure {name!r} already: {known.function.__module__} has it.")
    _registered[name] = Procedure(name, function, limit_s)
    return function


def find(name: str) -> Procedure | None:
    return _registered.get(name)


logger = logging.getLogger(__name__)

INVOKE_LIMIT_S = 10.0


class InvokeError(Exception):
    """The client has answered with an error, whose values these are; or with nothing, and there are none."""

    def __init__(self, why: str, values: list[Any]) -> None:
        super().__init__(why)
        self.values = values


async def invoke(session: uuid.UUID | str, procedure: str, *arguments: Any, limit_s: float = INVOKE_LIMIT_S) -> Any:
    """Calls the procedure of the session's client and gives its result.

    Arguments and result are what JSON can say. Raises InvokeError, also when there is no answer within `limit_s`.
    """
    layer = get_channel_layer()
    # Of the same prefix as those of this process's consumers: Redis' layer reads channels of one prefix at a time.
    reply = await layer.new_channel()
    await _send(session, procedure, arguments, reply)
    try:
        async with asyncio.timeout(limit_s):
            answer = await layer.receive(reply)
    except TimeoutError:
        raise InvokeError("The client did not answer in time.", []) from None
    values: list[Any] = answer["values"]
    if not answer["succeeded"]:
        raise InvokeError("The client could not do this." if values else "The client did not answer.", values)
    return values[-1] if values else None


async def notify(session: uuid.UUID | str, procedure: str, *arguments: Any) -> None:
    """Calls the procedure of the session's client, which doesn't answer. InvokeError: the session has ended."""
    await _send(session, procedure, arguments, "")


async def _send(session: uuid.UUID | str, procedure: str, arguments: tuple[Any, ...], reply: str) -> None:
    live = Session.objects.filter(pk=session, ended_at__isnull=True)
    channel = await live.values_list("channel", flat=True).afirst()
    if not channel:
        raise InvokeError("The session has ended.", [])
    message = {
        "type": "session.invoke",
        "session_id": str(session),
        "procedure": procedure,
        "arguments": list(arguments),
        "reply": reply,
    }
    await get_channel_layer().send(channel, message)
