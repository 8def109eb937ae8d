"""The log's lines of sessions and refusals: what an operator greps for.

Names come masked, as for the lake. What peers can have it write is bounded: beyond so many lines a second, refusals and
decisions that failed are counted and told in one line.
"""

import logging
from collections.abc import Mapping
from typing import Any

from ingest.consumers.active import ActiveSession
from ingest.contracts import EndReason, Totals
from ingest.log_records import Bound, about, more
from ingest.services.attempts import AttemptRow

logger = logging.getLogger(__name__)

REFUSALS_S = 20
"""Refusals that are logged in one second; all of them are in the table of attempts."""

FAILURES_S = 1
"""Failures of the database, and of our own, that are logged in one second: each is a refusal as well."""

VERBS = {"publish": "Publishing", "play": "Playing"}


def accepted(session: ActiveSession) -> None:
    with about(**_of(session)):
        logger.info(
            "%s %s from %s accepted, encoder %s.",
            VERBS[session.kind],
            session.path,
            session.address,
            session.encoder or "unknown",
            extra={"kind": session.kind, "encoder": session.encoder},
        )


def ended(session: ActiveSession, reason: EndReason | str, description: str, totals: Totals | None) -> None:
    figures: Mapping[str, Any] = totals or {}
    with about(**_of(session)):
        logger.info(
            "%s %s from %s ended: %s%s%s",
            VERBS[session.kind],
            session.path,
            session.address,
            reason,
            f": {description}" if description else ".",
            f" {figures['duration_ms'] / 1000:.1f} s, {figures['bytes_in']} bytes in, {figures['bytes_out']} out."
            if figures
            else "",
            extra={
                "kind": session.kind,
                "reason": reason,
                **{name: figures[name] for name in ("duration_ms", "bytes_in", "bytes_out") if name in figures},
            },
        )


def _of(session: ActiveSession) -> dict[str, str]:
    return {"session_id": str(session.id), "stream": session.path, "client": session.address}


_refusals = Bound(REFUSALS_S)
_database_failures = Bound(FAILURES_S)
_own_failures = Bound(FAILURES_S)


def refused(attempt: AttemptRow) -> None:
    """Its texts are masked and bounded."""
    left_out = _refusals.take()
    if left_out is None:
        return
    if left_out:
        logger.info("%d more refusals were not logged; the page Refused connections counts them.", left_out)
    path = f"{attempt.app}/{attempt.name}" if attempt.name else attempt.app
    with about(stream=path, client=attempt.address):
        logger.info(
            "A %s of %s from %s refused: %s: %s",
            attempt.action,
            path or "nothing",
            attempt.address,
            attempt.reason,
            attempt.description,
            extra={"action": attempt.action, "reason": attempt.reason, "encoder": attempt.encoder},
        )


def database_failed(action: str, error: Exception, level: int) -> None:
    left_out = _database_failures.take()
    if left_out is not None:
        logger.log(level, "A %s was refused: %s%s", action, type(error).__name__, more(left_out))


def failed(action: str, error: Exception) -> None:
    """A fault of our own: with its traceback."""
    left_out = _own_failures.take()
    if left_out is not None:
        logger.error("A %s could not be decided%s", action, more(left_out), exc_info=error)
