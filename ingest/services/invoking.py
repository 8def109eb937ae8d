"""Calls of procedures that clients have, by the connection of a session, on whichever node it is."""

import asyncio
import logging
import uuid
from typing import Any

from channels.layers import get_channel_layer

from ingest.models import Session

logger = logging.getLogger(__name__)

LIMIT_S = 10.0


class InvokeError(Exception):
    """The client has answered with an error, whose values these are; or with nothing, and there are none."""

    def __init__(self, why: str, values: list[Any]) -> None:
        super().__init__(why)
        self.values = values


async def invoke(session: uuid.UUID | str, procedure: str, *arguments: Any, limit_s: float = LIMIT_S) -> Any:
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
