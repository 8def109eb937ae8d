"""Another server, which is dialled again and again for as long as something is ordered of it: to push a stream there,
or to pull one from there.

A failure that can pass is tried again after a second, then two, up to a minute; a refusal much less often, as it hardly
passes by itself; and where the URL itself is at fault, not at all. A redirect is followed once."""

import logging
from asyncio import TimerHandle
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ingest import clock
from ingest.contracts import PushFailure, PushState
from ingest.credentials import query_fields
from ingest.rtmp import ClientConnection, events
from ingest.rtmp.status import PLAY_STREAM_NOT_FOUND
from ingest.server.config import DialSettings
from ingest.server.connection_base import Server
from ingest.server.dial_rules import DialRules
from ingest.server.dialling import Backoff, Destination, Failure, destination_of
from ingest.server.outgoing import Outgoing, Patience, Surroundings

logger = logging.getLogger(__name__)

SLOW: Final[frozenset[PushFailure]] = frozenset({"refused", "limit"})
PASSING: Final = frozenset({PLAY_STREAM_NOT_FOUND})
"""Refusals that pass by themselves: it is not published there yet."""

DOWNGRADED: Final = Failure("tls", "", "It redirects to a server without TLS, to which what is secret is not sent.")


def secrets_of(url: str, name: str) -> tuple[str, ...]:
    """What may be secret of an order, in the forms in which a server may quote it; the longest first."""
    try:
        parts = urlsplit(url)
    except ValueError:  # It is not dialled either.
        return (name,)
    path, _, query = name.partition("?")
    found = {name, path, unquote(path), parts.password or "", parts.query}
    for each in (query, parts.query):
        for value in query_fields(each).values():
            found.add(value)
    return tuple(sorted((each for each in found if each), key=len, reverse=True))


@dataclass(eq=False, slots=True)
class Slots:
    """For so many there is room at once; the others try again."""

    most: int
    _taken: set[object] = field(default_factory=set)

    def take(self, who: object) -> bool:
        """Once for each, until it is free."""
        if who not in self._taken and len(self._taken) < self.most:
            self._taken.add(who)
        return who in self._taken

    def free(self, who: object) -> None:
        self._taken.discard(who)


class Remote:
    """It is the user of a connection. What is done there is for who inherits this."""

    def __init__(
        self, server: Server, settings: DialSettings, rules: DialRules, url: str, name: str, *, private_allowed: bool
    ) -> None:
        self._server = server
        self._settings = settings
        self._surroundings = Surroundings(server.loop, server.read_buffer, server.config)
        self._forbids = partial(rules.forbids, private_allowed=private_allowed)
        self._url = url
        self._secrets = secrets_of(url, name)
        self._connection: Outgoing | None = None
        self._stream_id = 0
        self._retry: TimerHandle | None = None
        self._is_redirected = False
        self.state: PushState = "connecting"
        self.since = clock.now()
        self.tries = 0
        self.retry_at: float | None = None
        self.failure: Failure | None = None
        self._quick = Backoff(settings.first_retry_s, settings.last_retry_s)
        self._slow = Backoff(settings.first_refused_s, settings.last_refused_s)
        self._live_at: float | None = None

    # --- For who inherits this ---

    label = ""
    """How logs name it."""
    patience: Patience

    @property
    def properties(self) -> Mapping[str, Any]:
        """Of `connect`."""
        raise NotImplementedError

    def prepare(self, rtmp: ClientConnection) -> None:
        """Queue what is said between the answer to `connect` and `createStream`."""

    def may_dial(self) -> Failure | None:
        """None: it may. Asked each time."""
        raise NotImplementedError

    def gone(self) -> None:
        """The connection is no more."""

    def changed(self) -> None:
        """The state is another one."""

    def created(self, stream_id: int) -> None:
        raise NotImplementedError

    def status(self, event: events.StatusReceived) -> None:
        raise NotImplementedError

    def data(self, event: events.DataReceived) -> None:
        """Of one that is pushed to: nothing that matters."""

    def resumed(self) -> None:
        """It takes media again."""

    # --- Dialling ---

    def dial(self) -> None:
        self._is_redirected = False
        self._dial(self._url)

    def _dial(self, url: str) -> None:
        self._retry = self.retry_at = None
        if refused := self.may_dial():
            self.fail(refused)
            return
        try:
            to = destination_of(url)
        except ValueError as error:
            self.fail(Failure("address", "", str(error), is_final=True))
            return
        self.set_state("connecting")
        self._connection = self._connected_to(to)

    def _connected_to(self, to: Destination) -> Outgoing:
        return Outgoing(
            to,
            self,
            self._surroundings,
            self.patience,
            properties=self.properties,
            ca=self._settings.ca,
            forbids=self._forbids,
            prepare=self.prepare,
        )

    def hang_up(self) -> None:
        """Without a word to anybody, and for now."""
        self.cancel_retry()
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = self.retry_at = None

    # --- What comes of it ---

    def lives(self) -> None:
        """It does what was ordered."""
        if self.failure is not None:
            logger.info("%s goes on.", self.label)
        self.failure, self.tries, self._live_at = None, 0, self._server.loop.time()
        self.set_state("live")

    def lost(self, failure: Failure) -> None:
        """The connection's word."""
        former, self._connection = self._connection, None
        self.gone()
        if failure.redirect and not self._is_redirected and former is not None:
            self._is_redirected = True
            if former.to.scheme == "rtmps" and not failure.redirect.startswith("rtmps:"):
                self.fail(DOWNGRADED)
            else:
                self._dial(failure.redirect)
            return
        self.fail(failure)

    def fail(self, failure: Failure) -> None:
        """What comes of it: the next try in a while, or none."""
        loop = self._server.loop
        if self._live_at is not None and loop.time() - self._live_at >= self._settings.settled_s:
            self._quick.reset()
            self._slow.reset()
        self._live_at = None
        failure = failure.shown(*self._secrets)
        is_new = self.failure is None or self.failure[:3] != failure[:3]
        self.tries += 1
        if is_new:
            again = "It is not tried again." if failure.is_final else "It is tried again."
            level = logging.INFO if self._server.draining else logging.WARNING  # Then it is what was wanted.
            logger.log(level, "%s: %s %s", self.label, failure.words, again)
        self.failure = failure
        if failure.is_final:
            self.set_state("stopped")
            return
        passes = failure.kind not in SLOW or failure.code in PASSING or self._server.draining
        delay = (self._quick if passes else self._slow).next_s()
        self.retry_at = clock.now() + delay
        self._retry = loop.call_later(delay, self.dial)
        self.set_state("retrying")

    def set_state(self, state: PushState) -> None:
        """Each try that failed is told anew, with what came of it."""
        if state != self.state or state in ("retrying", "stopped"):
            self.state, self.since = state, clock.now()
            self.changed()
