"""What a node asks and reports to the database, each at its own interval, and never at the expense of its ticks.

A round that is still under way, since the database is slow, is not started again; one that fails is logged once and
tried again with the next tick. Live streams go on meanwhile. Of publishers that are silent only changes are written."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import Error as AnyDatabaseError
from django.db import transaction

from ingest import clock
from ingest.consumers import decisions, recorder
from ingest.consumers.active import ACTIVE, REACH, has_any, leased, must_end, of_node, published
from ingest.consumers.base import Send
from ingest.consumers.pulls import Pulls
from ingest.consumers.pushes import Pushes
from ingest.consumers.relaying import Relaying
from ingest.contracts import EndReason, Issue, NodeAddress, Sample
from ingest.models import Node, Session
from ingest.services import bans, database, health_rules, installation, leases, nodes, relays, sessions
from ingest.services.bans import get_guard
from ingest.services.installation import StartError

SILENT_MS = 1000
"""Without audio and video. Short enough to be told before an encoder that lost its connection is back."""

SAME = timedelta(seconds=0.5)
"""Two figures for the beginning of one silence differ by less, whatever the clocks."""


class SilenceTracker:
    def __init__(self) -> None:
        self._silent: dict[uuid.UUID, datetime] = {}
        """The publishers that are silent, and since when,"""
        self._written: dict[uuid.UUID, datetime] = {}
        """and what the database knows of that, of publishers that are still here."""

    def observe(self, samples: Sequence[Sample]) -> None:
        """The samples of a second, in order; a session without any has ended."""
        silent = self._silent = {}
        present = set()
        for sample in samples:
            session = ACTIVE.get(sample.session)
            if session is None:
                continue
            if sample.idle_ms >= SILENT_MS:
                since = database.shared_time_of(sample.at_us / 1e6 - sample.idle_ms / 1000)
                session.silent_since = silent[session.id] = since
            elif session.silent_since is not None:
                session.silent_since = None
                silent.pop(session.id, None)
            if self._written:
                present.add(session.id)
        if self._written:
            self._written = {session: at for session, at in self._written.items() if session in present}

    def changes(self) -> tuple[dict[uuid.UUID, datetime], set[uuid.UUID]]:
        """What the database doesn't know yet: who is silent, since when, and of whom media come again."""
        known = self._written
        silent = {
            session: since
            for session, since in self._silent.items()
            if (at := known.get(session)) is None or abs(since - at) > SAME
        }
        return silent, known.keys() - self._silent.keys()

    def written(self, silent: dict[uuid.UUID, datetime], speaking: set[uuid.UUID]) -> None:
        self._written |= silent
        for session in speaking:
            self._written.pop(session, None)


logger = logging.getLogger(__name__)

START_S = 1.0
"""Between two tries to have the node's start written."""

REVOCATIONS_S = 0.9
"""Less than a tick, so that each tick asks."""

PROCESS_BEGAN = clock.now()

LEASES_S = leases.RENEW_S - 0.1
"""Likewise, so that it is each third tick."""

SWEEP_S = 10.0

READING = frozenset({"revocations", "relays", "pushes", "pulls"})
"""Rounds that only read, but for what seldom changes."""

PROOFS = {"start": "write", "leases": "write", "revocations": "read"}
"""Rounds that always ask the database, and what it does when they succeed."""


class Upkeep:
    """One node's rounds. `start` comes first and is repeated until the database has taken it."""

    def __init__(
        self, node: str, address: str, send: Send, *, url: Callable[[], str] = lambda: "", local: str = ""
    ) -> None:
        """`url`: by which other nodes reach this one; it may have to look that up. `local`: the socket by which those
        of its machine do."""
        self.node = node
        self.relaying = Relaying(node, send)
        self._send = send
        self._url = url
        self._local = local
        self._rules: dict[str, health_rules.Rules] = {}
        """Of health: the rules of each session's stream, as the server was told them last."""
        self._drain_known: nodes.Drain | None = None
        self.issues: Sequence[Issue] = ()
        """The node's own, as of the last tick."""
        self._drains = False
        self._address = address
        self._began = clock.utc_now()
        self._left: list[Session] = []
        """Sessions of a former process that ended, until the start is written."""
        self._claim = nodes.Claim(node)
        self._refused = ""
        """Why this node may not serve."""
        self._row: int | None = None
        self.node_address: NodeAddress | None = None
        """As the database has it, once it has taken the start."""
        self._bans: bans.Mark | None = None
        self._busy: set[str] = set()
        self._due: dict[str, float] = {}
        self._failing: set[str] = set()
        """What the database doesn't do: read, write."""
        self._state: Node.State | None = None
        """Of the node, where the database doesn't know it yet."""
        self._doubtful = True
        """Whether our sessions may have been ended by others since the leases were renewed last."""
        self.silences = SilenceTracker()
        """Those that fell silent are told with the next rounds."""
        self.pushes = Pushes(node, send)
        self.pulls = Pulls(node, send)
        self._rounds: tuple[tuple[str, float, Callable[[], Coroutine[Any, Any, None]]], ...] = (
            ("revocations", REVOCATIONS_S, self._revocations),
            ("leases", LEASES_S, self._leases),
            ("relays", REVOCATIONS_S, self.relaying.look),
            ("sweep", SWEEP_S, self._sweep),
            ("pushes", REVOCATIONS_S, self.pushes.round),
            ("pulls", REVOCATIONS_S, self._pull),
        )

    @property
    def has_started(self) -> bool:
        """The database has taken the node's start, and what a former process left has been ended."""
        return self._row is not None

    def due(self, now: float) -> list[Coroutine[Any, Any, None]]:
        """The rounds to start at the time `now` (seconds of the loop's clock), as coroutines."""
        if self._row is None:
            return self._begin("start", START_S, self._start, now)
        begun = [work for name, every, action in self._rounds for work in self._begin(name, every, action, now)]
        silent, speaking = self.silences.changes()
        if silent or speaking:
            begun += self._begin("silences", 0.0, partial(self._write_silences, silent, speaking), now)
        return begun

    def _begin(
        self, name: str, every: float, action: Callable[[], Coroutine[Any, Any, None]], now: float
    ) -> list[Coroutine[Any, Any, None]]:
        if name in self._busy or now < self._due.get(name, 0.0):
            return []
        self._busy.add(name)
        self._due[name] = now + every
        return [self._guarded(name, action)]

    async def _guarded(self, name: str, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """The round; the database's absence, and its return, are logged once. It may be away for writes alone."""
        try:
            await action()
        except AnyDatabaseError as error:
            self._due.pop(name, None)  # With the next tick: leases may have expired meanwhile.
            if not self._failing:
                logger.warning(
                    "The node's upkeep (%s) waits for the database: %s", name, database.describe_error(error)
                )
            self._failing.add("read" if name in READING else "write")
        else:
            if self._failing and name in PROOFS:
                self._failing.discard(PROOFS[name])
                if not self._failing:
                    logger.info("The database answers again.")
        finally:
            self._busy.discard(name)

    async def _start(self) -> None:
        alive = of_node(self.node)

        def start() -> Node | None:
            installation.check_once()
            if not self._claim.take():
                return None
            url = self._url()
            self.node_address = {"url": url, "local": self._local, "process": str(nodes.own_process())}
            node = nodes.started(
                name=self.node,
                address=self._address,
                url=url,
                role=settings.ROLE,
                local=self._local,
                now=database.read_shared_clock(),
                since=self._began,
                alive=alive,
                process_since=database.shared_time_of(PROCESS_BEGAN),
                left=self._left,
                drains=self._drains,  # As of now: what `enter` writes comes before this, or after it.
            )
            leases.clear_silent_of(node=node.pk)
            self.relaying.around = relays.neighbours(node=self.node)
            self._read_bans()
            return node

        try:
            node = await decisions.run(start, executor=decisions.WRITE)
        except StartError as error:
            await self._stand_back(error)
            return
        if node is None:
            return  # Another process may still have the name: that shows with the next ticks.
        REACH.reached(database.shared_now())
        if self._refused:
            logger.info("The node takes connections again.")
        self._row, self._refused = node.pk, ""
        for session in self._left:
            recorder.lost(session)
        if self._left:
            logger.warning("Closed %d sessions that a former process of this node left open.", len(self._left))
        self._left = []

    async def _stand_back(self, error: StartError) -> None:
        """Takes no connections and ends those that there are, until this node may serve: it is tried again and again.

        Who starts is refused before that. This one began while the database was away, or stood still for so long that
        its name was taken.
        """
        self._row = None
        if str(error) != self._refused:
            self._refused = str(error)
            logger.error("This node takes no connections for now: %s", error)
        if not self._drains:
            await self._send({"type": "node.drain", "grace_s": 0.0})

    async def _revocations(self) -> None:
        streams, anyone = published(self.node), has_any(self.node)

        def read() -> tuple[list[tuple[uuid.UUID, EndReason]], nodes.Drain | None, dict[int, health_rules.Rules]]:
            self._read_bans()
            database.read_shared_clock()
            due = sessions.due_to_end(node=self.node, now=clock.utc_now()) if anyone else []
            rules = health_rules.rules_on(node=self.node) if streams else {}
            return due, nodes.drain(name=self.node), rules

        due, drain, rules = await decisions.run(read, executor=decisions.READ)
        former, self._rules = self._rules, {key: rules.get(stream, {}) for key, stream in streams.items()}
        for key, found in self._rules.items():
            if found != former.get(key, {}) and key in ACTIVE:
                await self._send({"type": "node.rules", "session_id": key, "health": found})
        for session, reason in due:
            if must_end(session, reason):
                await self._drop(session, reason)
        if drain is not None and drain != self._drain_known:
            await self._send({"type": "node.drain", "grace_s": drain.left_s(database.shared_now())})
        elif drain is None and self._drains:
            await self._send({"type": "node.resume"})
        self._drain_known = drain

    async def _pull(self) -> None:
        await self.pulls.round(self.relaying.waiting, asyncio.get_running_loop().time())

    async def _drop(self, session: uuid.UUID, reason: EndReason) -> None:
        """Has the server end the session, if it is still alive here."""
        if str(session) in ACTIVE:
            await self._send({"type": "node.drop", "session_id": str(session), "reason": reason})

    def _read_bans(self) -> None:
        self._bans = bans.update_guard(get_guard(), now=clock.utc_now(), before=self._bans)

    async def _leases(self) -> None:
        """Renews the leases; the same round says that the node lives, and in which state."""
        held, row, state = leased(self.node), self._row, self._state
        assert row is not None  # noqa: S101 - rounds begin after the start.
        doubtful, self._doubtful = self._doubtful, True  # Unless this comes to its end.
        alive = of_node(self.node)

        def renew() -> list[tuple[uuid.UUID, EndReason]]:
            now = database.read_shared_clock()
            with transaction.atomic():
                back = nodes.seen(name=self.node, now=now, issues=self.issues)
                if state is not None:
                    nodes.set_state(name=self.node, state=state, now=now)
                lost = leases.renew(node=row, held=held, now=now)
                due = sessions.end_reasons_of_lost(sessions=lost) if lost else []
                return due + (sessions.ended_elsewhere(sessions=alive) if back or doubtful else [])

        try:
            due = await decisions.run(renew, executor=decisions.WRITE)
        except StartError as error:
            await self._stand_back(error)
            return
        REACH.reached(database.shared_now())
        self._doubtful = False
        if self._state is state:
            self._state = None
        for session, reason in due:
            await self._drop(session, reason)

    async def _write_silences(self, silent: dict[uuid.UUID, datetime], speaking: set[uuid.UUID]) -> None:
        def write() -> None:
            leases.mark_silent(since=silent)
            leases.clear_silent(sessions=speaking)

        await decisions.run(write, executor=decisions.WRITE)
        self.silences.written(silent, speaking)

    async def _sweep(self) -> None:
        """Clears what dead nodes left, once this node could write for long enough to know that they are."""

        def sweep() -> list[Session]:
            now = database.read_shared_clock()
            return nodes.sweep(now=now) if now - REACH.since(now) > nodes.LOST_AFTER else []

        ended = await decisions.run(sweep, executor=decisions.WRITE)
        for session in ended:
            recorder.lost(session)
        if ended:
            logger.warning("Ended %d sessions of nodes that were lost.", len(ended))

    async def enter(self, state: Node.State) -> None:
        """Draining, or up again. Written now or, if that fails, with the leases: again and again until it is."""
        self._state, self._drains = state, state == Node.State.DRAINING
        if await self._write_state(state) and self._state is state:
            self._state = None

    async def stopped(self) -> None:
        await self._write_state(Node.State.DOWN)

    async def _write_state(self, state: Node.State) -> bool:
        loop = asyncio.get_running_loop()
        try:
            await decisions.decide(
                lambda: nodes.set_state(name=self.node, state=state, now=database.read_shared_clock()),
                executor=decisions.WRITE,
                deadline=loop.time() + decisions.LIMIT_S,
            )
        except (AnyDatabaseError, decisions.TooSlow) as error:
            logger.warning("The node's state was not written: %s", type(error).__name__)
            return False
        return True
