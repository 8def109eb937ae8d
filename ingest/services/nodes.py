"""Media nodes: up, seen, down, and what the death of one leaves to clear; and which process it is that has a node's
name, and whether it still runs, as far as that can be told from here.

Their times are by the clock that all share (`database.shared_now`)."""

import functools
import logging
import os
import socket
import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import CharField, Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from ingest import clean
from ingest.contracts import Issue
from ingest.models import Node, Session
from ingest.services import database, sessions
from ingest.services.installation import StartError
from ingest.services.sql import Given, Prepared

UNKNOWN = "-"
"""Where there is no /proc."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process, apart from every other one. As text it has its four parts with blanks between them."""

    host: str
    pid: int
    began: str
    """In the kernel's ticks since the machine's start."""
    place: str
    """The machine's start, and the namespace of its process numbers: containers have their own."""

    def __str__(self) -> str:
        return f"{self.host} {self.pid} {self.began} {self.place}"

    @property
    def runs(self) -> bool | None:
        """None: it is, or was, of another machine or container, or of another start of this one."""
        if self.place == UNKNOWN or self.place != _machine_start():
            return None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        began = _process_began(self.pid)
        return None if began is None else began == self.began


def parse_process(text: str) -> Process | None:
    """What `str` made of a process; None: it is none."""
    match text.split():
        case [host, pid, began, place] if pid.isdecimal():
            return Process(host, int(pid), began, place)
    return None


@functools.cache
def own_process() -> Process:
    pid = os.getpid()
    return Process(
        socket.gethostname()[:64] or UNKNOWN, pid, _process_began(pid) or str(time.time_ns()), _machine_start()
    )


os.register_at_fork(after_in_child=own_process.cache_clear)


def _process_began(pid: int) -> str | None:
    """ "": it has ended, and its parent has yet to notice. None: that can't be seen."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()  # proc(5): from the third on.
    except OSError:
        return None
    return "" if fields[0] in "ZX" else fields[19]


@functools.cache
def _machine_start() -> str:
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{started}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return UNKNOWN


logger = logging.getLogger(__name__)

LOST_AFTER = timedelta(seconds=30)
"""A node that was not seen for so long is down."""

STILL_S = 7.0
"""A node that runs is seen every 3 s: one that was not, two times in a row, is dead."""
POLL_S = 0.5
"""Between two polls of one that may be."""
MAX_GAP_S = 3.0
"""Polls that are further apart tell nothing together: the database may have been away for it as well."""


def own_name() -> str:
    return str(settings.NODE_NAME or socket.gethostname() or "node")


class NameTaken(StartError):  # noqa: N818 - it reads as what it says.
    """Another process has the node's name, and runs."""

    def __init__(self, name: str, process: str) -> None:
        other = parse_process(process)
        which = f" as process {other.pid} of {other.host}" if other else ""
        super().__init__(
            f"The node {name} runs already{which}: stop that one first, or give this one a name of its own by "
            "RTMPWEB_NODE. Two of one name would end each other's sessions."
        )


class Claim:
    """Takes a node's name for this process, from whoever had it and has stopped or died.

    A process of this machine is known to be dead at once, so that a node that crashed is back soon. One of another
    machine or container, or of a former version, is watched for STILL_S.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._sign: tuple[str, datetime] | None = None
        """What the one that may run showed last: itself, and when it was seen."""
        self._shown_at = self._polled_at = 0.0

    def __str__(self) -> str:
        return f"The node {self.name} was not stopped in order: looking for {STILL_S:.0f} s whether it still runs."

    def take(self) -> bool:
        """False: it is not known yet, ask again in a while. Raises NameTaken."""
        own, now = str(own_process()), database.read_shared_clock()
        absent = {"state": Node.State.DOWN, "started_at": now, "seen_at": now, "stopped_at": now, "process": own}
        node, _ = Node.objects.get_or_create(name=self.name, defaults=absent)
        if node.process == own:
            return True
        if node.process or node.stopped_at is None:
            other = parse_process(node.process)
            runs = other.runs if other else None
            if runs:
                raise NameTaken(self.name, node.process)
            if runs is None and not self._stands_still(node):
                return False
        return bool(Node.objects.filter(pk=node.pk, process=node.process, seen_at=node.seen_at).update(process=own))

    def _stands_still(self, node: Node) -> bool:
        sign, now = (node.process, node.seen_at), time.monotonic()
        former_at, self._polled_at = self._polled_at, now
        if now - former_at > MAX_GAP_S:
            self._sign = None
        if sign != self._sign:
            former, self._sign, self._shown_at = self._sign, sign, now
            if former is not None:
                raise NameTaken(self.name, node.process)
        return now - self._shown_at >= STILL_S


def started(
    *,
    name: str,
    address: str,
    now: datetime,
    url: str = "",
    role: str = Node.Role.ORIGIN,
    local: str = "",
    since: datetime | None = None,
    alive: Collection[uuid.UUID] = (),
    process_since: datetime | None = None,
    left: list[Session] | None = None,
    drains: bool = False,
) -> Node:
    """The node, whose name this process has, is up, or draining if it `drains` already. Sessions that its former
    process left open end as node_lost, when it was last seen: each by itself, and before the node is up, so that what
    fails half-way goes on when it is tried again. Those that ended are added to `left`.

    `since` is when the node's application began, `alive` are its own sessions: what is one of these or began later is
    left alone. A drain that was asked for before `process_since` (None: before now) was meant for a former process.
    """
    seen_at = Node.objects.filter(name=name).values_list("seen_at", flat=True).first()
    _close(name, seen_at or now, before=since or now, alive=alive, ended=[] if left is None else left)
    with transaction.atomic():
        former = Node.objects.filter(name=name).first()
        asked = former.drain_requested_at if former else None
        node, _ = Node.objects.update_or_create(
            name=name,
            defaults={
                "state": Node.State.DRAINING if drains else Node.State.UP,
                "address": address[:255],
                "url": url[:255],
                "role": role,
                "local": local[:255],
                "started_at": now,
                "seen_at": now,
                "stopped_at": None,
                "process": str(own_process()),
                "drain_requested_at": asked if asked and process_since and asked >= process_since else None,
            },
        )
    return node


def row(*, name: str) -> Node:
    """Of a node of this process, whose first session may come before its own start is written."""
    return Node.objects.get_or_create(name=name, defaults={"process": str(own_process())})[0]


def _ours(name: str) -> "QuerySet[Node]":
    """The node's row, unless another process has the name."""
    return Node.objects.filter(name=name, process__in=("", str(own_process())))


def seen(*, name: str, now: datetime, issues: Sequence[Issue] = ()) -> bool:
    """The node lives, with these issues. True: it had been taken for dead, and its sessions had been ended.

    Raises NameTaken where another process has its name by now: this one was not seen for long, and is not to go on.
    """
    if not _ours(name).update(seen_at=now, issues=clean.jsonable(list(issues))):
        process = Node.objects.filter(name=name).values_list("process", flat=True).first()
        if process is not None:
            raise NameTaken(name, process)
    taken_for_dead = _ours(name).filter(state=Node.State.DOWN)
    back = taken_for_dead.filter(drain_requested_at__isnull=True).update(state=Node.State.UP, stopped_at=None)
    return bool(back + taken_for_dead.update(state=Node.State.DRAINING, stopped_at=None))


def set_state(*, name: str, state: Node.State, now: datetime) -> None:
    """By the node itself. One that is down has stopped in order, and its name is free."""
    over = {"stopped_at": now, "process": ""} if state == Node.State.DOWN else {}
    _ours(name).update(seen_at=now, state=state, **over)


def with_live_counts() -> "QuerySet[Any]":
    """All nodes, each with how many `publishers` and `players` are open there. What has ended is not read for it."""
    return Node.objects.annotate(publishers=_open(Session.Kind.PUBLISH), players=_open(Session.Kind.PLAY))


def _open(kind: Session.Kind) -> Coalesce:
    here = Session.objects.filter(node=OuterRef("pk"), kind=kind, ended_at__isnull=True).order_by().values("node")
    return Coalesce(Subquery(here.annotate(count=Count("pk")).values("count")), 0)


class NodeError(Exception):
    """The node can't do what was asked. The message is for the operator."""


@dataclass(frozen=True, slots=True)
class Drain:
    """What an operator asked of a node: to take nothing new, and to end what is left after a time."""

    requested_at: datetime
    grace_s: int

    def left_s(self, now: datetime) -> float:
        return max(0.0, self.grace_s - (now - self.requested_at).total_seconds())


def request_drain(*, name: str, grace_s: int, now: datetime) -> Node:
    """The node does so within a second; once more, and the time begins anew. Raises NodeError."""
    node = _running(name)
    node.drain_requested_at, node.drain_grace_s = now, grace_s
    node.save(update_fields=["drain_requested_at", "drain_grace_s"])
    return node


def cancel_drain(*, name: str) -> Node:
    """The node takes connections again within a second or two. Raises NodeError."""
    node = _running(name)
    node.drain_requested_at = None
    node.save(update_fields=["drain_requested_at"])
    return node


def drain(*, name: str) -> Drain | None:
    asked = [Drain(*row) for row in _drain.ask(name=name)]
    return asked[0] if asked else None


@Prepared
def _drain() -> "QuerySet[Node, Any]":
    asked = Node.objects.filter(name=Given("name", CharField()), drain_requested_at__isnull=False)
    return asked.values_list("drain_requested_at", "drain_grace_s")


def forget(*, name: str) -> Node:
    """A node that is down is gone for good: it counts as stopped when it was last seen, and nobody misses it. History
    keeps its name; should it come back, it is as any other. Raises NodeError.
    """
    node = _known(name)
    if node.state != Node.State.DOWN:
        raise NodeError(
            f"The node {name} is {node.state}. Only one that is down can be forgotten: stop it first. One that died is "
            f"down after {LOST_AFTER.total_seconds():.0f} s, if another node runs."
        )
    node.stopped_at, node.process = node.stopped_at or node.seen_at, ""
    node.save(update_fields=["stopped_at", "process"])
    return node


def _known(name: str) -> Node:
    node = Node.objects.filter(name=name).first()
    if node is None:
        known = ", ".join(Node.objects.values_list("name", flat=True)) or "none yet"
        raise NodeError(f"There is no node {name}. Known nodes: {known}.")
    return node


def _running(name: str) -> Node:
    node = _known(name)
    if node.state == Node.State.DOWN:
        raise NodeError(f"The node {name} is down. A process that starts under this name takes connections at once.")
    return node


def sweep(*, now: datetime) -> list[Session]:
    """Ends the sessions of nodes that were not seen for LOST_AFTER, which it returns, and marks these nodes down.

    Each session by itself: while hundreds end, others write as well. What fails half-way goes on with the next sweep,
    as the node is not down before all have ended. One that is seen again meanwhile is down too: so it learns of those.

    Called only by a node that has itself reached the database for as long, or an outage would look like a death.
    """
    ended: list[Session] = []
    for node in Node.objects.filter(seen_at__lt=now - LOST_AFTER).exclude(state=Node.State.DOWN):
        before = len(ended)
        try:
            _close(node.name, node.seen_at, ended=ended)
            is_down = Q(pk=node.pk) if len(ended) > before else Q(pk=node.pk, seen_at=node.seen_at)
            Node.objects.filter(is_down).update(state=Node.State.DOWN)
        except DatabaseError as error:
            if not ended:
                raise
            logger.warning("Sessions of the lost node %s are left for later: %s", node.name, type(error).__name__)
            break
    return ended


def _close(
    name: str,
    at: datetime,
    *,
    ended: list[Session],
    before: datetime | None = None,
    alive: Collection[uuid.UUID] = (),
) -> None:
    """Ends the node's sessions one by one, and adds each to those that have ended. `before`: only those that began
    until then, by the node's own clock."""
    left = Session.objects.filter(node__name=name, ended_at__isnull=True)
    if before is not None:
        left = left.filter(started_at__lte=before)
    for session in list(left.exclude(pk__in=list(alive)).values_list("pk", flat=True)):
        if sessions.end(session=session, reason="node_lost", description="The node stopped unexpectedly.", at=at):
            ended += Session.objects.select_related("node").filter(pk=session)
