"""Damps the guessing of secrets: who is banned is refused unheard, and a wrong secret is answered late."""

import asyncio
import logging
import secrets
from datetime import UTC, datetime

from django.conf import settings

from ingest import clean, clock
from ingest.consumers.active import DRAINING
from ingest.history import get_history
from ingest.history_rows import BanRow
from ingest.services.guard import WINDOW_S, get_guard
from ingest.services.publishrequest import Peer
from ingest.services.refusals import Action, Refused

logger = logging.getLogger(__name__)

GUESSES = {"key_unknown", "token_invalid", "login_wrong"}
"""Reasons of a refusal for which the secret may have been a guess. A wrong password is another one each time: what is
shown is the answer to a challenge, so whoever repeats one can't be told from whoever tries many."""

_held_back: "set[tuple[str, asyncio.Future[None]]]" = set()
"""Answers that wait, with their nodes."""

_random = secrets.SystemRandom()


def hear(action: Action, address: str) -> None:
    """Raises Refused for a banned address. To be asked before a secret is looked up, and before the database is: who is
    banned takes no place there.
    """
    until = get_guard().banned_until(address, clock.now())
    if until is not None:
        raise Refused(action, "banned", stream=None, key=None, when=datetime.fromtimestamp(until, UTC))


async def damp(refused: Refused, peer: Peer, secret: str) -> None:
    """After a refusal, before the answer: counts a wrong secret, bans who tried too many, and lets time pass."""
    if refused.reason not in GUESSES:
        return
    now = clock.now()
    guesses = get_guard().wrong(peer.address, secret, now)
    if guesses:
        address = clean.text(peer.address, 64)
        get_history().put(BanRow(address, datetime.fromtimestamp(now, UTC), settings.BAN_S, guesses, peer.node))
        logger.warning(
            "%s is banned for %d s: %d different wrong keys, tokens or passwords came from it within %d minutes. If "
            "encoders of yours are there, correct their settings, then lift the ban: manage.py ban lift %s",
            address,
            settings.BAN_S,
            guesses,
            WINDOW_S // 60,
            address,
        )
    delay = _random.uniform(0, settings.REFUSAL_DELAY_S)
    if delay:
        await _hold_back(peer.node, delay)


async def _hold_back(node: str, delay_s: float) -> None:
    """Lets so much time pass, but none while the node is drained or stops."""
    if node in DRAINING:
        return
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(delay_s, _give, over)
    _held_back.add((node, over))
    try:
        await over
    finally:
        timer.cancel()
        _held_back.discard((node, over))


def let_go(node: str) -> None:
    """Has the node give all answers that it holds back: it is about to end."""
    for of, over in _held_back:
        if of == node:
            _give(over)


def _give(over: "asyncio.Future[None]") -> None:
    if not over.done():
        over.set_result(None)
