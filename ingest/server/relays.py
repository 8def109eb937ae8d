"""Streams that are published on other nodes and played here: each is fetched once, however many play it.

The application says where a stream is (`RelayOrder`): with a player that it accepts, and by `node.relay` as long as any
wait for it. A relay plays the stream there, as a player does, and publishes what comes here: with the same payloads and
timestamps, from the last keyframe on. When the publisher leaves, so does the relay's; its players wait, as anybody's
do, and go on with the next, wherever that is.

Of several sources the first that answers is taken; after the last, the first again. What fails is tried again for as
long as it is ordered and played."""

import logging
import uuid
from asyncio import TimerHandle
from collections.abc import Callable, Mapping
from typing import Any, Final

from ingest import clock
from ingest.contracts import MediaInfo, PublishLimits, RelayFigures, RelayOrder, RelaySource
from ingest.live import LiveStream, Publisher, SocketFigures
from ingest.live.media_path import CLEAR, KEYFRAMES, NOT_RELAYED
from ingest.rtmp import events
from ingest.rtmp.capabilities import RELAY_CAPABILITIES
from ingest.rtmp.messages.commands import number
from ingest.rtmp.run_reader import Run
from ingest.rtmp.status import PLAY_START, PLAY_UNPUBLISH_NOTIFY
from ingest.server.connection_base import Server
from ingest.server.dialling import Backoff, Failure, destination
from ingest.server.live_players import LivePlayers
from ingest.server.outgoing import Outgoing, Patience, Surroundings
from ingest.server.relay_playing import AUDIENCE
from ingest.server.sockets import UNKNOWN, tcp_info

logger = logging.getLogger(__name__)

FLASH_VERSION: Final = "LNX 10,0,32,18 (rtmpweb relay)"
"""A player's, as servers tell those by the beginning."""

NO_LIMITS: Final[PublishLimits] = {
    "max_kbps": None,
    "over_limit": "warn",
    "idle_timeout_s": 0.0,
    "first_media_timeout_s": 0.0,
    "target_kbps": None,
    "expect_audio": True,
    "expect_video": True,
}
"""The node where it is published keeps them."""

PROPERTIES: Final = {**RELAY_CAPABILITIES.properties(), "flashVer": FLASH_VERSION, "fpad": False}
"""Of `connect`."""

MOST_KEYFRAMES_S: Final = 600.0
"""Between two keyframes, as far as another node is believed."""

TOO_MANY: Final = "The node relays as many streams as it may ({}): raise RTMPWEB_MAX_RELAYS, or add a node."

SendAway = Callable[[dict[str, str]], None]
"""Tells the players of these paths why they wait in vain."""


class Relay:
    """One stream: it is the user of a connection, the sink of what that plays, and its publisher here."""

    def __init__(self, relays: "Relays", live: LiveStream, order: RelayOrder) -> None:
        self._relays = relays
        self._server = relays.server
        self.live = live
        self._labels = order["labels"]
        self._order: RelayOrder | None = order
        """None: nobody publishes it, as far as is known."""
        self._at = 0
        """Which of the sources is tried, or has it."""
        self._connection: Outgoing | None = None
        self._stream_id = 0
        self._is_playing = False
        self._retry: TimerHandle | None = None
        settings = self._server.config.relay
        self._backoff = Backoff(settings.first_retry_s, settings.last_retry_s)
        """Since a source has played."""
        self._failing_since: float | None = None
        self._failure = ""
        self._publisher: Publisher | None = None
        self.node = self._url = ""
        """With which it is connected, or was last."""
        self._players = LivePlayers(self._server, live)
        self._idle_since: float | None = None
        self._changed_at = clock.now()
        """When its state began, seconds since the epoch."""
        self._received = self._read = 0
        """Bytes that came by its former connections; and by all, as of the latest tick."""
        self._sent, self._dropped = live.audience.out_bytes, live.audience.dropped_frames
        """What its players got, likewise; before there was a relay, of publishers here."""
        self._in_kbps = self._out_kbps = 0.0
        live.is_relayed = True
        self._dial()

    # --- Where it is ---

    def follow(self, order: RelayOrder) -> None:
        """The same again changes nothing but the tokens. Another publisher may be at another node; and a source that is
        named no more, and has sent nothing yet, waits for this node itself, if both were to ask the other first."""
        former, self._order = self._order, order
        self.live.is_relayed = True
        place = next((at for at, each in enumerate(order["sources"]) if each["url"] == self._url), None)
        is_same = former is not None and former["session_id"] == order["session_id"]
        if self._connection is not None and (place is not None or (is_same and self.is_live)):
            self._at = place or 0
        elif self._retry is None or not is_same:
            self._hang_up()
            self._end_publishing()  # What comes from there is another publisher's.
            self._at = 0
            self._backoff.reset()
            self._dial()
        else:
            self._at %= len(order["sources"])

    def unpublished(self) -> None:
        """Nobody publishes it, as far as the database knows: its players wait for whoever does next, here too if it is
        where the last one was. What comes all the same goes on."""
        if self._publisher is not None:
            return
        self._order, self._failing_since, self.live.is_relayed = None, None, False
        if not self._is_playing:
            self._hang_up()

    def end(self) -> None:
        self._order = self._failing_since = None
        self._hang_up()
        self._end_publishing()
        self.live.is_relayed = False

    @property
    def _source(self) -> RelaySource | None:
        return self._order["sources"][self._at] if self._order is not None else None

    @property
    def _is_at_last_source(self) -> bool:
        return self._order is None or self._at == len(self._order["sources"]) - 1

    def _dial(self) -> None:
        self._retry = None
        source, settings = self._source, self._server.config.relay
        if source is None:
            return
        try:
            to = destination(source["url"], self.live.app)
        except ValueError as error:
            self._failed(f"{error}.")
            return
        self.node, self._url = source["node"], source["url"]
        self._connection = Outgoing(
            to,
            self,
            self._relays.surroundings,
            Patience(settings.begin_s, settings.quiet_s, settings.answer_s),
            properties=PROPERTIES,
            ca=settings.ca,
        )

    def _hang_up(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._connection is not None:
            self._connection.close()
            self._forget_connection()

    def _forget_connection(self) -> None:
        self._received = self._received_bytes
        self._connection, self._is_playing = None, False

    @property
    def is_live(self) -> bool:
        return self._publisher is not None

    # --- As the connection's user ---

    def created(self, stream_id: int) -> None:
        source, connection = self._source, self._connection
        if source is not None and connection is not None:
            self._stream_id = stream_id
            connection.play(stream_id, f"{self.live.name}?token={source['token']}", self)

    def status(self, event: events.StatusReceived) -> None:
        if event.stream_id != self._stream_id:
            return
        if event.code == PLAY_UNPUBLISH_NOTIFY:
            self._end_publishing()
            self._order, self.live.is_relayed = None, False
        elif event.code == PLAY_START and self._connection is not None:
            self._is_playing = True
            if self._is_at_last_source:  # Which has the stream, whether or not anything comes just now.
                self._connection.begun()

    def data(self, event: events.DataReceived) -> None:
        if event.stream_id != self._stream_id:
            return
        if event.name == KEYFRAMES:
            self._keyframes_told(event.values)
        if event.name in NOT_RELAYED:
            return
        now = self._server.loop.time()
        self._begin_publishing(now)
        self.live.data(event.timestamp, event.name, event.values, event.payload, now, kept=event.kept)
        if event.name == CLEAR:
            self._players.cleared(event.payload)

    def _keyframes_told(self, values: list[Any]) -> None:
        interval_s = number(values[0], 0.0) if values else 0.0
        if 0 < interval_s <= MOST_KEYFRAMES_S:
            self.live.told_keyframes_s = interval_s

    def resumed(self) -> None:
        """It sends nothing that could wait."""

    def lost(self, failure: Failure) -> None:
        self._forget_connection()
        self._end_publishing()
        tokens = [source["token"] for source in self._order["sources"]] if self._order is not None else ()
        self._failed(failure.shown(*tokens).words)

    def _failed(self, why: str) -> None:
        """The next source at once; after the last of them the first again, in a while."""
        order, loop = self._order, self._server.loop
        if order is None:
            return
        source = order["sources"][self._at]
        if self._failing_since is None:
            self._failing_since, self._changed_at = loop.time(), clock.now()
            logger.warning(
                "%s can't be relayed from node %s (%s): %s It is tried again.",
                *(self.live.path, source["node"], source["url"], why),
            )
        self._failure = f"From node {source['node']} ({source['url']}): {why}"
        self._at = (self._at + 1) % len(order["sources"])
        self._retry = loop.call_later(self._backoff.next_s() if self._at == 0 else 0.0, self._dial)

    # --- As its publisher ---

    def audio(self, timestamp: int, payload: bytes) -> None:
        now = self._server.loop.time()
        if self._publisher is None:
            self._begin_publishing(now)
        self.live.audio(timestamp, payload, now)

    def video(self, timestamp: int, payload: bytes) -> None:
        now = self._server.loop.time()
        if self._publisher is None:
            self._begin_publishing(now)
        self.live.video(timestamp, payload, now)

    def run(self, run: Run) -> None:
        now = self._server.loop.time()
        if self._publisher is None:
            self._begin_publishing(now)
        self.live.run(run, now)

    def _begin_publishing(self, now: float) -> None:
        if self._publisher is not None:
            return
        self.live.is_relayed = True
        if self._connection is not None:
            self._connection.begun()
        self._publisher = Publisher(
            session_id=f"relay-{uuid.uuid4()}",
            address="",
            encoder=FLASH_VERSION,
            labels=self._labels,
            limits=NO_LIMITS,
            started=clock.now(),
            socket=self._socket,
            on_description=self._described,
        )
        self.live.start(self._publisher, now)
        self._players.begun()
        if self._failing_since is not None:
            logger.info("%s is relayed again.", self.live.path)
        self._backoff.reset()
        self._failing_since, self._changed_at = None, clock.now()

    def _end_publishing(self) -> None:
        if self._publisher is not None:
            publisher, self._publisher = self._publisher, None
            self._changed_at = clock.now()
            self.live.stop(publisher.session_id, self._server.loop.time())
            self._players.ended()

    def _described(self, _metadata: dict[str, Any], _media: MediaInfo) -> None:
        self._players.described()

    def _socket(self) -> SocketFigures:
        connection = self._connection
        found = tcp_info(connection.tcp_socket) if connection is not None else UNKNOWN
        return SocketFigures(self._received_bytes, found.rtt_ms, found.retransmits)

    @property
    def _received_bytes(self) -> int:
        return self._received + (self._connection.received_bytes if self._connection is not None else 0)

    # --- Once a second ---

    def tick(self, now: float, elapsed_s: float) -> None:
        """Tells the source who plays here, and its own node where it stands."""
        audience, received = self.live.audience, self._received_bytes
        sent, dropped = audience.out_bytes - self._sent, audience.dropped_frames - self._dropped
        self._in_kbps = round((received - self._read) * 8 / 1000 / elapsed_s, 1)
        self._out_kbps = round(sent * 8 / 1000 / elapsed_s, 1)
        self._read = received
        if self._is_playing and self._connection is not None:
            who = (audience.players, audience.slow_players, audience.losing_players)
            figures = map(float, (*who, sent, dropped, audience.viewers))
            self._connection.rtmp.notify(AUDIENCE, *figures, stream_id=self._stream_id)
            self._connection.write()
        self._sent, self._dropped = audience.out_bytes, audience.dropped_frames

    def is_idle(self, now: float) -> bool:
        """Nobody has played it for a while."""
        if self.live.subscribers:
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = now
        return now - self._idle_since >= self._server.config.relay.idle_s

    def in_vain(self, now: float) -> str:
        """Why its players have waited for too long, as a sentence; "": they have not."""
        if self._failing_since is None or now - self._failing_since < self._server.config.relay.send_away_s:
            return ""
        return f"The stream is published on another node, which this one can't reach. {self._failure}"

    @property
    def figures(self) -> RelayFigures:
        live = self.live
        return RelayFigures(
            stream=self._labels["stream"],
            path=live.path,
            source=self.node if self.is_live else "",
            state="live" if self.is_live else "connecting" if self._failing_since is None else "failing",
            since=self._changed_at,
            players=live.player_count,
            here=live.player_count - live.beyond.total.players + live.beyond.here.players,
            in_kbps=self._in_kbps,
            out_kbps=self._out_kbps,
            relayed_to=live.beyond.nodes,
            failure=self._failure if self._failing_since is not None else "",
        )


class Relays:
    """Of a node."""

    def __init__(self, server: Server, send_away: SendAway) -> None:
        self.server = server
        self.surroundings = Surroundings(server.loop, server.read_buffer, server.config)
        self._send_away = send_away
        self._by_path: dict[str, Relay] = {}
        self._ticked_at = server.loop.time()

    def want(self, path: str, order: RelayOrder) -> None:
        """Somebody here plays the stream, which is published elsewhere. What is live is told by `follow` alone where it
        goes on: the order of a player may be older."""
        relay = self._by_path.get(path)
        live = self.server.registry.get_or_create(path, order["labels"])
        if relay is not None:
            if not relay.is_live:
                relay.follow(order)
        elif live.publisher is None:
            if len(self._by_path) < self.server.config.relay.most:
                self._by_path[path] = Relay(self, live, order)
            else:
                self.server.loop.call_soon(self._send_away, {path: TOO_MANY.format(self.server.config.relay.most)})

    def follow(self, streams: Mapping[str, RelayOrder | None]) -> None:
        for path, order in streams.items():
            relay, live = self._by_path.get(path), self.server.registry.get(path)
            if relay is not None and order is not None:
                relay.follow(order)
            elif relay is not None:
                relay.unpublished()
            elif order is not None and live is not None and live.subscribers:
                self.want(path, order)

    def end(self, path: str) -> None:
        """It is published here now, or nobody plays it any more."""
        relay = self._by_path.pop(path, None)
        if relay is not None:
            relay.end()

    def close(self) -> None:
        for path in list(self._by_path):
            self.end(path)

    def tick(self, now: float) -> None:
        elapsed_s, self._ticked_at = max(now - self._ticked_at, 0.001), now
        in_vain: dict[str, str] = {}
        for path, relay in list(self._by_path.items()):
            relay.tick(now, elapsed_s)
            if relay.is_idle(now):
                self.end(path)
            elif why := relay.in_vain(now):
                in_vain[path] = why
        if in_vain:
            self._send_away(in_vain)

    @property
    def figures(self) -> list[RelayFigures]:
        return [relay.figures for relay in self._by_path.values()]
