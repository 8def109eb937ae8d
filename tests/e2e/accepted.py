"""Publishing on a busy machine: who is refused, as the database did not answer in time, comes again as encoders do."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

from tests.rtmp_client import Refused, RtmpClient, is_passing
from tests.server_process import ServerProcess, program, wait_for

REASON = "database_slow"
"""See `is_passing`."""
TRIES = 5


@contextmanager
def on_air(
    server: ServerProcess, path: str, command: list[str]
) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """The encoder while it publishes to the stream, and the stream's snapshot when it was first live."""
    with ExitStack() as stack:
        known = _count_refused(server)
        started = [stack.enter_context(program(*command))]

        def look() -> dict[str, Any] | None:
            nonlocal known
            snapshot = server.stream(path)
            if snapshot["state"] == "live":
                return snapshot
            if started[-1].poll() is not None and len(started) < TRIES:
                known = wait_refused(server, known)
                started.append(stack.enter_context(program(*command)))
            return None

        snapshot = wait_for(look, timeout_s=40, what=f"{path} is live")
        yield started[-1], snapshot


def whole(server: ServerProcess, publish: Callable[[], None]) -> None:
    """`publish` to its end, which raises CalledProcessError when it is refused."""
    known = _count_refused(server)
    for _ in range(TRIES):
        try:
            return publish()
        except subprocess.CalledProcessError:
            known = wait_refused(server, known)
    raise AssertionError(f"refused {TRIES} times: {REASON}")


def _count_refused(server: ServerProcess) -> int:
    """How often anybody was, for that reason alone: where an encoder only connects, its stream is not known."""
    return sum(attempt["count"] for attempt in server.items(f"/api/v1/attempts?reason={REASON}"))


def wait_refused(server: ServerProcess, known: int) -> int:
    """Until more than `known` were; returns how many."""

    def more() -> int | None:
        count = _count_refused(server)
        return count if count > known else None

    return wait_for(more, timeout_s=10, what=f"it was refused, more than {known} times: {REASON}")


@asynccontextmanager
async def client(port: int, key: str, **properties: Any) -> AsyncIterator[tuple[RtmpClient, int]]:
    """One that publishes to `live`, and its message stream. `properties`: of its `connect`."""
    for tries_left in reversed(range(TRIES)):
        async with RtmpClient(port=port, timeout_s=20) as connection:
            try:
                await connection.connect("live", **properties)
                stream_id = await connection.publish(key)
            except Refused as refused:
                if not is_passing(refused) or not tries_left:
                    raise
            else:
                yield connection, stream_id
                return
        await asyncio.sleep(0.5)
