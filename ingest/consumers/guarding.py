"""Damps the guessing of secrets: who is banned is refused unheard, and a wrong secret is answered late."""

import asyncio
import logging
import secrets
import time
from datetime import UTC, datetime

from django.conf import settings

from ingest import clean
from ingest.history import BanRow, get_history
from ingest.services.admission import Peer
from ingest.services.guard import WINDOW_S, get_guard
from ingest.services.refusals import Action, Refused

logger = logging.getLogger(__name__)

GUESSES = {"key_unknown", "token_invalid"}
"""Reasons of a refusal for which the secret may have been a guess."""

_random = secrets.SystemRandom()


def hear(action: Action, address: str) -> None:
    """Raises Refused for a banned address. To be asked before a secret is looked up; from any thread."""
    until = get_guard().banned_until(address, time.time())
    if until is not None:
        raise Refused(action, "banned", stream=None, key=None, when=datetime.fromtimestamp(until, UTC))


async def damp(refused: Refused, peer: Peer, secret: str) -> None:
    """After a refusal, before the answer: counts a wrong secret, bans who tried too many, and lets time pass."""
    if refused.reason not in GUESSES:
        return
    now = time.time()
    guesses = get_guard().wrong(peer.address, secret, now)
    if guesses:
        address = clean.text(peer.address, 64)
        get_history().put(BanRow(address, datetime.fromtimestamp(now, UTC), settings.BAN_S, guesses, peer.node))
        logger.warning(
            "%s is banned for %d s: %d different wrong keys or tokens came from it within %d minutes. If encoders of "
            "yours are there, correct their keys, then lift the ban: manage.py ban lift %s",
            address,
            settings.BAN_S,
            guesses,
            WINDOW_S // 60,
            address,
        )
    delay = _random.uniform(0, settings.REFUSAL_DELAY_S)
    if delay:
        await asyncio.sleep(delay)
