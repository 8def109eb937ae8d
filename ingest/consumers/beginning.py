"""What a media node asks the database before it listens."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ingest.consumers import database
from ingest.services import nodes

T = TypeVar("T")

ASK_S = 15.0
"""For an answer: a database that hangs gives up sooner by itself, so that only a busy machine takes so long."""


async def ask(work: Callable[[], T]) -> T:
    """Raises TooSlow, and what `work` does."""
    deadline = asyncio.get_running_loop().time() + ASK_S
    return await database.decide(work, executor=database.WRITE, deadline=deadline)


async def take_name(node: str, say: Callable[[str], None]) -> None:
    """Returns once the name is this process's. Raises NameTaken, TooSlow and DatabaseError.

    `say` is given a line if that takes a while.
    """
    claim = nodes.Claim(node)
    if await ask(claim.take):
        return
    say(str(claim))
    while not await ask(claim.take):  # noqa: ASYNC110 - another process may write.
        await asyncio.sleep(nodes.LOOK_S)
