"""The database from the pages' WebSockets: by few threads, each of which keeps a connection, however many are open."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar, cast

from channels.db import database_sync_to_async

P = ParamSpec("P")
T = TypeVar("T")

READ_THREADS = 3
READ = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="rtmpweb-pages-read")


def reading(work: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """`work` as a coroutine.

    Not in the one thread that thread-sensitive code shares: a slow query there would hold up every other consumer. Nor
    in the event loop's own, of which there are many: each would keep its connection for as long as nobody uses it.
    """
    return cast("Callable[P, Awaitable[T]]", database_sync_to_async(work, thread_sensitive=False, executor=READ))
