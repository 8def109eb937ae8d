"""What a node's application has pushed: the orders to the server, from the targets in the database, and what the server
tells of them: to the targets' rows, as events of the publisher's session, and into what pages show.

An order names all targets of a publisher. One that is to be tried anew, or goes elsewhere now, is left out once."""

import uuid
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, cast

from ingest import clean, clock
from ingest.consumers import decisions, recorder
from ingest.consumers.active import ACTIVE
from ingest.consumers.base import Send
from ingest.contracts import StreamSnapshot
from ingest.contracts.figures import PushView
from ingest.contracts.relays import NodePush, PushChange, PushFailure, PushFigures, PushOrder, PushState
from ingest.services import push_advice, pushes
from ingest.services.history_writer import get_history
from ingest.services.pushes import PushRow, Target
from ingest.services.relay_urls import without_secrets
from ingest.services.sealing import Unreadable

MAX_CHANGES: Final = 200
"""Of a session's pushes that are told in its history: a target may take and lose a push again and again."""

FAILING: Final = ("retrying", "stopped")


class Pushes:
    """One node's. Its round comes once a second."""

    def __init__(self, node: str, send: Send) -> None:
        self._node, self._send = node, send
        self._ordered: dict[str, dict[int, PushOrder]] = {}
        """What the server was told last, by session and target."""
        self._targets: dict[int, Target] = {}
        """The rows that it was made of, by target; of those that were ordered once, while their publisher is here."""
        self._last: dict[int, PushChange] = {}
        """What was told last of each,"""
        self._told: dict[str, int] = {}
        """and how often, by session."""
        self._refused: dict[int, float] = {}
        """Targets that are wanted, and not even ordered, and since when."""

    async def round(self) -> None:
        publishers = self._publishers()
        told = {last["session_id"] for last in self._last.values()}
        self._forget((self._ordered.keys() | told) - publishers.keys())
        if not publishers:
            return
        rows = await decisions.run(lambda: pushes.targets_on(node=self._node), executor=decisions.READ)
        by_stream = {stream: session for session, stream in publishers.items()}
        here = [row for row in rows if row.stream in by_stream]
        moved = {row.pk: uuid.UUID(by_stream[row.stream]) for row in here}
        moved = {row.pk: moved[row.pk] for row in here if row.asked and row.asked_for != moved[row.pk]}
        if moved:  # The next round goes by what comes of it.
            await decisions.run(lambda: pushes.carry_over(moved), executor=decisions.WRITE)
            here = [row for row in here if row.pk not in moved]
        await self._order(here, by_stream)

    def _publishers(self) -> dict[str, int]:
        """The streams of those that are no test, by session; of two of a stream, the later one."""
        found: dict[int, tuple[int, str]] = {}
        for key, session in ACTIVE.items():
            if session.kind == "publish" and session.node == self._node and session.stream and not session.is_test:
                found[session.stream] = max(found.get(session.stream, (0, "")), (session.fencing, key))
        return {key: stream for stream, (_, key) in found.items()}

    async def _order(self, rows: Sequence[Target], by_stream: Mapping[int, str]) -> None:
        wanted = [row for row in rows if pushes.is_wanted(row, uuid.UUID(by_stream[row.stream]))]
        before = {target for orders in self._ordered.values() for target in orders}
        within, beyond = pushes.limited(wanted, before)
        orders: dict[str, dict[int, PushOrder]] = {session: {} for session in by_stream.values()}
        again: set[int] = set()
        refused, self._refused = self._refused, {}
        for row in within:
            session, former = by_stream[row.stream], self._targets.get(row.pk)
            order = self._known(session, row, former)
            if order is None:
                continue
            if former is not None and row.turn is not None and row.turn != former.turn:
                again.add(row.pk)
            orders[session][row.pk] = order
            self._targets[row.pk] = row
        for row in beyond:
            self._refuse(by_stream[row.stream], row, "limit", "", "This node pushes as much as it may.")
        self._refused = {pk: refused.get(pk, at) for pk, at in self._refused.items()}
        for session, of_session in orders.items():
            await self._tell(session, of_session, again)

    def _known(self, session: str, row: Target, former: Target | None) -> PushOrder | None:
        """What was ordered of it, if that is the same still: nothing is unsealed anew each second. None: its key can't
        be read."""
        order = self._ordered.get(session, {}).get(row.pk)
        if order is not None and former is not None and (former.url, former.sealed) == (row.url, row.sealed):
            return order
        try:
            return row.order()
        except Unreadable as problem:
            self._refuse(session, row, "refused", push_advice.UNREADABLE_CODE, str(problem))
            return None

    async def _tell(self, session: str, orders: dict[int, PushOrder], again: set[int]) -> None:
        before = self._ordered.get(session, {})
        if orders == before and not again & orders.keys():
            return
        for pk in before.keys() - orders.keys() - self._refused.keys():
            self._note(_change(session, self._targets[pk], "stopped"), self._targets[pk])
        changed = {pk for pk, order in orders.items() if pk in before and (order != before[pk] or pk in again)}
        if changed:
            await self._send(self._message(session, [order for pk, order in orders.items() if pk not in changed]))
        self._ordered[session] = orders
        await self._send(self._message(session, list(orders.values())))

    @staticmethod
    def _message(session: str, targets: list[PushOrder]) -> NodePush:
        return {"type": "node.push", "session_id": session, "targets": targets}

    def _refuse(self, session: str, row: Target, failure: PushFailure, code: str, description: str) -> None:
        """Says once that it is not even ordered."""
        self._refused[row.pk] = clock.now()
        last = self._last.get(row.pk)
        if last is not None and (last["session_id"], last.get("failure"), last["code"]) == (session, failure, code):
            return
        self._targets[row.pk] = row
        change = _change(session, row, "stopped")
        change |= {"failure": failure, "code": code, "description": description}
        self._note(change, row)

    def _forget(self, sessions: Set[str]) -> None:
        """Those that publish no more."""
        if not sessions:
            return
        for session in sessions:
            self._ordered.pop(session, None)
            self._told.pop(session, None)
        self._last = {pk: last for pk, last in self._last.items() if last["session_id"] not in sessions}
        known = self._last.keys() | {pk for orders in self._ordered.values() for pk in orders}
        self._targets = {pk: row for pk, row in self._targets.items() if pk in known}

    # --- What comes back ---

    def changed(self, event: PushChange) -> None:
        """From the server. What it says of one that is not ordered, or of the end of a former order, is late."""
        row = self._targets.get(event["target"])
        order = self._ordered.get(event["session_id"], {}).get(event["target"])
        is_end = event["state"] == "stopped" and not event.get("failure")
        if row is None or order is None or is_end or event["session_id"] not in ACTIVE:
            return
        masked = event.copy()
        masked["code"] = clean.text(without_secrets(event["code"], order["name"]), 64)
        masked["description"] = clean.text(without_secrets(event["description"], order["name"]), 512)
        self._note(masked, row)

    def _note(self, event: PushChange, row: Target) -> None:
        """To the row, to the session's history, and for pages: what is another than before."""
        former = self._last.get(row.pk)
        if former is not None and all(former.get(name) == event.get(name) for name in SAME):
            return
        self._last[row.pk] = self._with_reason(event, former)
        session = event["session_id"]
        failure = event.get("failure", "")
        get_history().put(
            PushRow(
                row.pk,
                uuid.UUID(session),
                clock.utc_now(),
                event["state"],
                failure,
                event["code"],
                event["description"],
            )
        )
        is_known = bool(failure) and former is not None and all(former.get(name) == event.get(name) for name in REASON)
        if event["state"] != "connecting" and not is_known and self._told.get(session, 0) < MAX_CHANGES:
            self._told[session] = self._told.get(session, 0) + 1
            _record(event, row)

    @staticmethod
    def _with_reason(event: PushChange, former: PushChange | None) -> PushChange:
        """While it is tried again, pages say why the last try failed."""
        if event["state"] != "connecting" or former is None or former["session_id"] != event["session_id"]:
            return event
        return former | {"state": event["state"]} if "failure" in former else event

    # --- What pages show ---

    def stamp(self, streams: Sequence[StreamSnapshot], figures: Sequence[PushFigures]) -> None:
        """Puts into each publisher's snapshot what is pushed of it."""
        by_session: dict[str, list[PushView]] = {}
        for each in figures:
            by_session.setdefault(each["session_id"], []).append(self._view(each))
        for snapshot in streams:
            session = snapshot["session_id"] or ""
            views = [*by_session.get(session, ()), *self._not_ordered(session)]
            if views:
                snapshot["pushes"] = views
                failing = sum(view["state"] in FAILING for view in views)
                snapshot["pushing"] = {"live": sum(view["state"] == "live" for view in views), "failing": failing}

    def _view(self, figures: PushFigures) -> PushView:
        last = self._last.get(figures["target"])
        is_known = last is not None and last["session_id"] == figures["session_id"] and figures["state"] != "live"
        told = last if is_known and last is not None else cast(PushChange, {})
        return _shown(figures, told)

    def _not_ordered(self, session: str) -> list[PushView]:
        """Those that this application refused itself."""
        refused = [(self._last[target], since) for target, since in self._refused.items() if target in self._last]
        return [_shown(_no_figures(last, since), last) for last, since in refused if last["session_id"] == session]


REASON: Final = ("session_id", "failure", "code", "description")
"""What a failure has in common with the one before, where history has nothing new to tell,"""
SAME: Final = ("state", *REASON)
"""and a change that says nothing new."""


def _change(session: str, row: Target, state: PushState) -> PushChange:
    return {
        "type": "node.pushed",
        "target": row.pk,
        "session_id": session,
        "stream": row.stream,
        "state": state,
        "code": "",
        "description": "",
    }


LEVELS: Final = {"live": "status", "retrying": "warning", "stopped": "status"}


def _record(event: PushChange, row: Target) -> None:
    session = ACTIVE.get(event["session_id"])
    if session is None:
        return
    failure = event.get("failure", "")
    detail: dict[str, Any] = {"target": row.pk, "label": row.label, "url": row.url, "state": event["state"]}
    kind, level, words = f"push.{event['state']}", LEVELS[event["state"]], f"{row.label}."
    if failure:
        found = push_advice.advice(failure, event["code"], event["description"])
        kind, level = "push.failed", "error" if event["state"] == "stopped" else "warning"
        words = f"{row.label}: {found.words}."
        detail |= {"failure": failure, "answer": event["description"], "advice": found.todo}
    recorder.record(
        session, recorder.event_now(kind, level=level, code=event["code"], description=words, detail=detail)
    )


def _shown(figures: PushFigures, told: PushChange) -> PushView:
    failure, code, description = told.get("failure", ""), told.get("code", ""), told.get("description", "")
    found = push_advice.advice(failure, code, description) if failure else None
    own = {name: value for name, value in figures.items() if name not in ("session_id", "stream")}
    said = {"failure": failure, "code": code, "description": description}
    said |= {"words": found.words if found else "", "advice": found.todo if found else ""}
    return cast(PushView, own | said)


def _no_figures(change: PushChange, since: float) -> PushFigures:
    return {
        "target": change["target"],
        "session_id": change["session_id"],
        "stream": change["stream"],
        "state": change["state"],
        "since": since,
        "kbps": 0.0,
        "sent_bytes": 0,
        "dropped_frames": 0,
        "behind_ms": 0,
        "rtt_ms": None,
        "tries": 0,
        "retry_at": None,
    }
