"""Connections of HTTP and WebSocket, bounded: how many there are, how long each takes, and how much it makes us hold.

Daphne holds whatever is sent, and Twisted's deadline begins anew with each byte. Here a connection has a place from its
accept on, each phase of a request a deadline that no byte moves, and its body a bound, as all bodies together have, and
all answers that clients have yet to take: who goes when they are too much is told here as well. A request that came
with the one before it waits until that one's answer is taken."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from io import BytesIO
from typing import Any

from daphne.http_protocol import WebRequest
from daphne.ws_protocol import WebSocketProtocol
from twisted.web import http

from ingest.addresses import Network, is_in, unit_or_itself
from ingest.log_records import Bound, more
from ingest.rate_limit import TokenBucket
from ingest.rtmp.limits import KIB, MIB
from ingest.server.connection_limits import ConnectionLimits

logger = logging.getLogger(__name__)

PIECE_BYTES = 64 * 1024
"""What a connection is handed at a time. Its transport is full with one or two of them."""

CUT = Bound(1, 10.0)
"""Lines about connections that were closed: clients can have any number of them."""


class UnsentAnswer:
    """What a connection has yet to be handed, in pieces, so that what was taken is no longer held."""

    def __init__(self, answers: "UnsentAnswers", address: str, cut: Callable[[], None]) -> None:
        """`cut` closes the connection, and drops this."""
        self.address = address
        self.unit = unit_or_itself(address)
        self.cut = cut
        self._answers = answers
        self._pieces: deque[bytes] = deque()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def put(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE_BYTES):
            self._pieces.append(data[at : at + PIECE_BYTES])
        self._answers.count(self, len(data))

    def take(self) -> bytes:
        """The next piece; b"" when there is none."""
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        self._answers.count(self, -len(piece))
        return piece

    def drop(self) -> None:
        size_bytes = sum(map(len, self._pieces))
        self._pieces.clear()
        self._answers.count(self, -size_bytes)


class UnsentAnswers:
    """All outboxes. Over the bound the address that has the most yet to take loses the one that stands still longest:
    who reads, be it slowly, is not who fills it.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._waiting: dict[UnsentAnswer, None] = {}
        """That hold something; whose client took something last stands last."""
        self._by_unit: Counter[str] = Counter()
        self.held_bytes = 0

    def count(self, outbox: UnsentAnswer, size_bytes: int) -> None:
        """So much more, or less, is held for this one."""
        self.held_bytes += size_bytes
        self._by_unit[outbox.unit] += size_bytes
        if not self._by_unit[outbox.unit]:
            del self._by_unit[outbox.unit]
        if size_bytes < 0:
            self._waiting.pop(outbox, None)
        if outbox:
            self._waiting.setdefault(outbox)

    def make_room(self, latest: UnsentAnswer) -> None:
        """Cuts off others than this one while too much is held: one answer may be longer than the bound."""
        while self.held_bytes > self._limit_bytes:
            others = [outbox for outbox in self._waiting if outbox is not latest]
            if not others:
                break
            worst = max(others, key=lambda outbox: self._by_unit[outbox.unit])  # Of equals it is the first.
            left_out = CUT.take()
            if left_out is not None:
                logger.warning(
                    "http %s: connection closed, as it does not take its answer, and clients have %d MiB of theirs yet "
                    "to take. Block the address if it goes on%s",
                    worst.address,
                    self._limit_bytes // MIB,
                    more(left_out) or ".",
                )
            worst.cut()


# What Twisted declares of these is little, and not true of all.
HTTPChannel: Any = http.HTTPChannel
HTTPFactory: Any = http.HTTPFactory


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What clients may take of one process. A head's size is bounded by Twisted: 16 KiB, 500 fields."""

    max_connections: int = 1_000
    """Over it a new connection is closed at once. Of HTTP and WebSocket together."""
    max_connections_per_address: int = 200
    """The same for one peer address that is no proxy's."""
    proxies: tuple[Network, ...] = ()
    """Whose connections are of many clients: of these there may be as many as in all."""
    body_bytes: int = 2560 * KIB
    """Of a request; a longer one is answered with 413, unread."""
    bodies_bytes: int = 32 * 1024 * KIB
    """Of all bodies at a time, but for the first `small_bytes` of each; over it one is answered with 503."""
    small_bytes: int = 64 * KIB
    """Of a body that finds room at any time: forms have less, log-ins much less."""
    pieces: int = 1_000
    """In which a body may come, and one more for each `piece_bytes` of it: each takes some 10 µs of the event loop."""
    piece_bytes: int = 64
    head_s: float = 10.0
    """From the connection, or the first byte of a further request, to the end of the request's head."""
    body_s: float = 30.0
    """From there to the end of its body."""
    idle_s: float = 60.0
    """From an answer to the first byte of the next request."""
    answer_s: float = 300.0
    """For the client to take an answer that does not fit into the buffers, once it is all made."""
    answers_bytes: int = 128 * MIB
    """Of all answers that are yet to be taken, but for some 128 KiB of each; over it connections are cut off."""
    linger_s: float = 1.5
    """From a refusal to the close, so that the client can read it."""
    page_bytes_per_s: int = 256
    """What a WebSocket may be sent by its page, which answers pings, as a mean over `page_s`: its request is in it."""
    page_s: float = 80.0
    message_bytes: int = 4 * KIB
    """Of a message of a WebSocket's page, which has nothing to say."""


class Refusal(Exception):  # noqa: N818 - an answer, not an error.
    """Ends a request that is not read to its end."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status

    def answer(self) -> bytes:
        text = f"{self}\n".encode()
        fields = f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\nConnection: close\r\n"
        return f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n{fields}\r\n".encode() + text


class Request(WebRequest):  # type: ignore[misc]
    """Its body is kept in memory, and not parsed here: Django does that."""

    def __init__(self, channel: "Channel", queued: int) -> None:
        super().__init__(channel, queued, parsePOSTFormSubmission=False)
        self._factory: Factory = channel.factory
        self._pieces = 0
        self._held_bytes = 0
        """Of the room for all bodies."""

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()  # Twisted's own is a file in the folder of temporary ones.

    def handleContentChunk(self, data: bytes) -> None:
        """A piece of the body. Raises Refusal."""
        limits = self._factory.limits
        size = self.content.tell() + len(data)
        if size > limits.body_bytes:
            raise too_large(limits)
        self._pieces += 1
        if self._pieces > limits.pieces + size // limits.piece_bytes:
            raise Refusal(HTTPStatus.BAD_REQUEST, "The body comes in too small pieces: send larger chunks.")
        held = max(0, size - limits.small_bytes)
        if not self._factory.hold(held - self._held_bytes):
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "Too much is being sent just now: try again in a minute.")
        self._held_bytes = held
        self.content.write(data)

    def process(self) -> Any:
        processed = super().process()
        if self.transport is None:  # It is a WebSocket's now, with all that came.
            self._release_body()
        return processed

    def finish(self) -> None:
        when_ended(self.server, self, self._release_body)
        super().finish()

    def connectionLost(self, reason: Any) -> None:
        when_ended(self.server, self, self._release_body)
        super().connectionLost(reason)

    def _release_body(self) -> None:
        self._factory.hold(-self._held_bytes)
        self._held_bytes = 0


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection of HTTP, until it is a WebSocket's. Twisted's timer, which begins with `head_s`, is the phase's."""

    requestFactory = Request
    factory: "Factory"
    address = ""

    def __init__(self) -> None:
        super().__init__()
        self._is_over = False
        """Whether what comes is not read, and what is answered not sent: the connection is about to close."""
        self._is_idle = False
        """Whether an answer was made, and nothing has come since."""
        self._is_full = False
        """Whether the client has yet to take what was written."""
        self._answered: Request | None = None
        """Whose answer is all made, and not all taken."""

    def connectionMade(self) -> None:
        self._outbox = UnsentAnswer(self.factory.answers, self.address, self.cut)
        super().connectionMade()

    def resetTimeout(self) -> None:
        """Nothing: a byte more does not move the deadline."""

    def dataReceived(self, data: bytes) -> None:
        if self._is_over:
            return  # Read and forgotten, so that the close that follows is no reset.
        if self._is_idle:
            self._is_idle = False
            self.setTimeout(self.factory.limits.head_s)
        super().dataReceived(data)

    def allHeadersReceived(self) -> None:
        limits = self.factory.limits
        if self.length is not None and self.length > limits.body_bytes:
            self._refuse(too_large(limits))
            return
        super().allHeadersReceived()
        if self.length != 0:
            self.setTimeout(limits.body_s)

    def rawDataReceived(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            super().rawDataReceived(data)
        except Refusal as refusal:
            self._refuse(refusal)
        if self._is_full:
            self.transport.pauseProducing()  # Twisted would keep it all, for after the answer.

    # --- The answer ---

    def write(self, data: bytes) -> None:
        self.writeSequence([data])

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        if self._is_over:
            return
        for data in iovec:
            self._outbox.put(data)
        self._send()
        self.factory.answers.make_room(self._outbox)

    def _send(self) -> None:
        while not self._is_full and (piece := self._outbox.take()):
            self.transport.write(piece)

    def pauseProducing(self) -> None:
        self._is_full = True
        super().pauseProducing()

    def resumeProducing(self) -> None:
        self._is_full = False
        super().resumeProducing()
        self._send()
        if self._answered is not None and not self._is_full:
            request, self._answered = self._answered, None
            self.requestDone(request)

    def requestDone(self, request: Request) -> None:
        if self._is_full:
            self._answered = request
            self.setTimeout(self.factory.limits.answer_s)
            return
        self._is_idle = True
        super().requestDone(request)
        if self._is_idle:
            self.setTimeout(self.factory.limits.idle_s)

    # --- The end ---

    def cut(self) -> None:
        """Closes it at once, whatever is yet to be sent."""
        self._is_over = True
        self._outbox.drop()
        self.transport.abortConnection()

    def timeoutConnection(self) -> None:
        """A phase took too long: who is in the midst of a request is told."""
        if self._answered is not None:
            self.cut()
        elif self.requests and not self._is_over:
            self._refuse(Refusal(HTTPStatus.REQUEST_TIMEOUT, "The request did not come in time."))
        else:
            super().timeoutConnection()

    def connectionLost(self, reason: Any) -> None:
        latest = self.requests[0] if self.requests else None
        when_ended(self.factory.server, latest, lambda: self.factory.places.free(self.address))
        self._outbox.drop()
        if self._answered is not None:
            self.requests.remove(self._answered)  # It has ended, as far as it knows.
        super().connectionLost(reason)

    def _refuse(self, refusal: Refusal) -> None:
        self._is_over = True
        self.transport.write(refusal.answer())
        self.setTimeout(self.factory.limits.linger_s)


class Socket(WebSocketProtocol):  # type: ignore[misc]
    """A page's WebSocket, which has taken over an HTTP connection, and its place."""

    def connectionMade(self) -> None:
        self._http: Factory = self.factory.server_class.http_factory
        self._address: str = self.transport.getPeer().host
        self._received_bytes = 0
        limits = self._http.limits
        rate = limits.page_bytes_per_s
        self._limit = TokenBucket(rate, rate * limits.page_s, self._http.reactor.seconds())
        super().connectionMade()

    def dataReceived(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if self._limit.is_passed(self._received_bytes, self._http.reactor.seconds()):
            self.transport.abortConnection()
        else:
            super().dataReceived(data)

    def onMessageFrameBegin(self, length: int) -> None:
        super().onMessageFrameBegin(length)
        if self.message_data_total_length > self._http.limits.message_bytes:
            self.dropConnection(abort=True)

    def connectionLost(self, reason: Any) -> None:
        when_ended(self._http.server, self, lambda: self._http.places.free(self._address))
        super().connectionLost(reason)


class Factory(HTTPFactory):  # type: ignore[misc]
    """Makes a Channel of each connection that there is a place for, and knows what all of them hold."""

    protocol = Channel

    def __init__(self, server: Any, limits: HttpLimits, reactor: Any = None) -> None:
        """`server`: Daphne's; `reactor`: whose clock counts, if not the process's."""
        super().__init__(timeout=limits.head_s, reactor=reactor)
        self.server = server
        self.limits = limits
        self.places = ConnectionLimits(
            limits.max_connections,
            limits.max_connections_per_address,
            scheme="http",
            setting="RTMPWEB_HTTP_CONNECTIONS",
            advice="Raise the limit, block the address, or name it in RTMPWEB_TRUSTED_PROXIES if it is a proxy's.",
        )
        self.answers = UnsentAnswers(limits.answers_bytes)
        self._held_bytes = 0

    def buildProtocol(self, addr: Any) -> Channel | None:
        """None: the connection is closed."""
        if not self.places.take(addr.host, is_proxy=is_in(addr.host, self.limits.proxies)):
            return None
        channel: Channel = super().buildProtocol(addr)
        channel.address = addr.host
        return channel

    def hold(self, size_bytes: int) -> bool:
        """So much more, or less, of bodies is held. False: there is no room for it."""
        if size_bytes > 0 and self._held_bytes + size_bytes > self.limits.bodies_bytes:
            return False
        self._held_bytes += size_bytes
        return True

    def log(self, request: Request) -> None:
        """Nothing: `rtmpweb.middleware` does."""


def when_ended(server: Any, protocol: Any, do: Callable[[], object]) -> None:
    """Once what the server runs for this one has ended, which holds what was sent, also when its client has gone; at
    once, if there is nothing. `server`: Daphne's; `protocol`: None for a connection that has asked nothing.
    """
    application = server.connections.get(protocol, {}).get("application_instance")
    if application is None:
        do()
    else:
        application.add_done_callback(lambda _: do())


def too_large(limits: HttpLimits) -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The body is longer than {limits.body_bytes // KIB} KiB. Send less at a time, or raise RTMPWEB_HTTP_BODY_KIB.",
    )
