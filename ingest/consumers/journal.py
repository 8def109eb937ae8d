"""The log's lines of sessions and refusals: what an operator greps for.

Names come masked, as for the lake. What peers can have it write is bounded: beyond REFUSALS_S lines a second, refusals
are counted and told in one line.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any

from ingest.consumers.active import ActiveSession
from ingest.contracts import EndReason, Totals
from ingest.logcontext import about

logger = logging.getLogger(__name__)

REFUSALS_S = 20
"""Refusals that are logged in one second; all of them are in the table of attempts."""

VERBS = {"publish": "Publishing", "play": "Playing"}


def accepted(session: ActiveSession) -> None:
    with about(**_of(session)):
        logger.info(
            "%s %s/%s from %s accepted, encoder %s.",
            VERBS[session.kind],
            session.app,
            session.name,
            session.address,
            session.encoder or "unknown",
            extra={"kind": session.kind, "encoder": session.encoder},
        )


def ended(session: ActiveSession, reason: EndReason | str, description: str, totals: Totals | None) -> None:
    figures: Mapping[str, Any] = totals or {}
    with about(**_of(session)):
        logger.info(
            "%s %s/%s from %s ended: %s%s%s",
            VERBS[session.kind],
            session.app,
            session.name,
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
    return {
        "session_id": str(session.id),
        "stream": f"{session.app}/{session.name}",
        "client": session.address,
    }


class Refusals:
    """Logs refusals, REFUSALS_S a second at most."""

    def __init__(self) -> None:
        self._second = 0
        self._logged = 0
        self._left_out = 0

    def refused(
        self, *, action: str, app: str, name: str, address: str, encoder: str, reason: str, description: str
    ) -> None:
        """All texts masked and bounded."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._logged = second, 0
        if self._logged >= REFUSALS_S:
            self._left_out += 1
            return
        self._logged += 1
        if self._left_out:
            logger.info("%d more refusals were not logged; the attempts page counts them.", self._left_out)
            self._left_out = 0
        path = f"{app}/{name}" if name else app
        with about(stream=path, client=address):
            logger.info(
                "A %s of %s from %s refused: %s: %s",
                action,
                path or "nothing",
                address,
                reason,
                description,
                extra={"action": action, "reason": reason, "encoder": encoder},
            )


refused = Refusals().refused
