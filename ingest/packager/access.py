"""What the database says of a name and a token: whether they may be watched, and whether there is something to watch.
Each file that is asked for goes by it, so it is held true for a moment, and read once for all who ask at that time."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Literal

from ingest import clock, credentials
from ingest.consumers import decisions
from ingest.contracts import Labels, RelayOrder
from ingest.log_records import Bound, more
from ingest.models import Stream
from ingest.packager.arrivals import Arrivals
from ingest.packager.settings import PackagerSettings
from ingest.services import database, playback, pulls, relays
from ingest.services.refusals import Refused

logger = logging.getLogger(__name__)

DOUBTED = Bound(1, 10.0)
"""Lines: any number of names may be asked for while the database gives no answer."""

State = Literal["live", "waiting", "closed"]

CLOSED = "This stream can't be watched."
"""Of one that there is not as well, so that names can't be found out."""
UNKNOWN = "It can't be told now whether this stream may be watched. Try again in a moment."


@dataclass(frozen=True, slots=True)
class Found:
    """Of a stream's name and a token."""

    state: State
    """`waiting`: nobody publishes it."""
    words: str = ""
    """Why it is closed, for a viewer."""
    reason: str = ""
    """The same, as `refusals` names it."""
    path: str = ""
    pull: int | None = None
    """The source from which it is pulled once somebody waits for it."""


class Unsure(Exception):  # noqa: N818 - an answer, not an error.
    """The database has not answered, or is not asked."""


@dataclass(slots=True)
class _Known:
    """`at`: when the database said so, `tried`: when it was last asked since, and gave no answer."""

    found: Found
    at: float
    tried: float | None = None

    @property
    def asked_at(self) -> float:
        return self.at if self.tried is None else self.tried


NO_LINK = "This link is not valid any more. Ask for a new one."
EXPIRED = "This link has expired. Ask for a new one."


def words_of(reason: str, token: str) -> str:
    """What a viewer is told of a refusal: of what there is no more than of what there is not."""
    if reason == "token_expired":
        return EXPIRED
    return NO_LINK if token else CLOSED


class Access:
    def __init__(self, node: str, settings: PackagerSettings) -> None:
        self._node, self._settings = node, settings
        self._known: dict[tuple[str, str, str], _Known] = {}
        self._reads: dict[tuple[str, str, str], asyncio.Task[Found]] = {}
        self._arrivals = Arrivals(settings)

    def known(self, app: str, name: str, token: str) -> Found | None:
        """What was read a moment ago; it is read anew meanwhile, if that was not just now. What could not be, goes on
        being true: who watches does not wait for a database that hangs."""
        key = (app, name, token)
        known = self._known.get(key)
        if known is None:
            return None
        now = asyncio.get_running_loop().time()
        if now - known.asked_at >= self._settings.known_s:
            self._read_anew(key)
        good_s = 2 * self._settings.known_s if known.tried is None else self._settings.doubted_s
        return known.found if now - known.at < good_s else None

    def has_answered_since(self, at: float, app: str, name: str, token: str) -> bool:
        """Whether the database has, or has failed to. `at`: the loop's time."""
        known = self._known.get((app, name, token))
        return known is None or known.asked_at >= at

    async def look(self, app: str, name: str, token: str, address: str) -> Found:
        """`address`: who asks. Raises Unsure, also for who asks for any number of names."""
        if found := self.known(app, name, token):
            return found
        key = (app, name, token)
        is_new = key not in self._known and key not in self._reads
        if is_new and not self._arrivals.take(address, asyncio.get_running_loop().time()):
            raise Unsure
        try:
            return await asyncio.shield(self._read_anew(key))
        except Exception as error:
            known = self._known.get(key)
            if known is None or asyncio.get_running_loop().time() - known.at >= self._settings.doubted_s:
                raise Unsure from error
            return known.found

    def _read_anew(self, key: tuple[str, str, str]) -> "asyncio.Task[Found]":
        read = self._reads.get(key)
        if read is None:
            read = self._reads[key] = asyncio.get_running_loop().create_task(self._read(key))
            read.add_done_callback(lambda done: self._has_read(key, done))
        return read

    async def _read(self, key: tuple[str, str, str]) -> Found:
        app, name, token = key
        deadline = asyncio.get_running_loop().time() + decisions.LIMIT_S
        return await decisions.decide(
            lambda: read(app, name, token, node=self._node), executor=decisions.READ, deadline=deadline
        )

    def _has_read(self, key: tuple[str, str, str], done: "asyncio.Task[Found]") -> None:
        del self._reads[key]
        if done.cancelled():
            return
        if error := done.exception():
            self._doubt(key, error)
            return
        self._known.pop(key, None)
        self._known[key] = _Known(done.result(), asyncio.get_running_loop().time())
        if len(self._known) > self._settings.names:
            del self._known[next(iter(self._known))]

    def _doubt(self, key: tuple[str, str, str], error: BaseException) -> None:
        now, known = asyncio.get_running_loop().time(), self._known.get(key)
        if known is not None:
            known.tried = now if now - known.asked_at < self._settings.fresh_s else None
            if known.tried is None:
                del self._known[key]
        left_out = DOUBTED.take()
        if left_out is not None:
            path = credentials.scrub_text(f"{key[0]}/{key[1]}")
            words = "Whether %s may be watched is not known: %s%s"
            logger.warning(words, path, type(error).__name__, more(left_out))


def read(app: str, name: str, token: str, *, node: str) -> Found:
    try:
        target = playback.check(app=app, name=name, credential=token, now=clock.utc_now(), wanted="live")
        if target.stream is None:
            return Found("waiting", path=target.path)
        place = relays.place_of(stream=target.stream.pk, node=node, now=database.shared_now())
    except Refused as refused:
        return Found("closed", words_of(refused.reason, token), refused.reason)
    if place is not None:
        return Found("live", path=target.path)
    return Found("waiting", path=target.path, pull=pulls.on_demand(stream=target.stream.pk))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A stream that is published, and always packaged."""

    path: str
    labels: Labels
    order: RelayOrder


def read_always(*, node: str, known: frozenset[str]) -> tuple[list[Wanted], frozenset[str]]:
    """Those that are published now, without the ones that are known already; and the paths of all that are to be."""
    rows = Stream.objects.filter(hls_always=True, enabled=True).select_related("application")
    streams = {row.path: row for row in rows}
    missing = streams.keys() - known
    if not missing:
        return [], frozenset(streams)
    around, found = relays.neighbours(node=node), list[Wanted]()
    for path, place in relays.places(paths=missing, node=node, now=database.read_shared_clock()).items():
        order = relays.order(place, around)
        if order is not None:
            found.append(Wanted(path, {"stream": streams[path].pk, "key": None}, order))
    return found, frozenset(streams)
