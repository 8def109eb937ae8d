"""A live stream's players by RTMP, and the servers to which it is pushed, as they are told what becomes of it by
whoever publishes it here."""

from collections.abc import Iterator
from typing import Any

from ingest.live import LiveStream
from ingest.server.context import ServerContext
from ingest.server.playing import Playing


class LivePlayers:
    """Of one publisher's time. None is told in the midst of what goes on just then, but for the end."""

    def __init__(self, server: ServerContext[Any], live: LiveStream) -> None:
        self._server = server
        self._live = live
        self._fourccs = live.fourccs

    def begun(self) -> None:
        """Those that were told of the stream's end are told that it goes on."""
        if self._live.subscribers:
            self._server.loop.call_soon(self._notify)

    def described(self) -> None:
        """Those whose client can't play a codec that is new end."""
        if self._live.fourccs is not self._fourccs:
            self._fourccs = self._live.fourccs
            self._server.loop.call_soon(self._check_codecs)

    def cleared(self, payload: bytes) -> None:
        """What was kept for later players is not any more (`@clearDataFrame`)."""
        for player in self._players():
            player.cleared(payload)
        self._server.pushes.cleared(self._live, payload)

    def ended(self) -> None:
        self._server.pushes.ended(self._live)
        now = self._server.loop.time()
        for player in self._players():
            player.unpublished(now)

    def _notify(self) -> None:
        now = self._server.loop.time()
        for player in self._players():
            player.published_again(now)

    def _check_codecs(self) -> None:
        for player in self._players():
            player.check_codec()
        self._server.pushes.described(self._live)

    def _players(self) -> Iterator[Playing]:
        sessions = self._server.sessions
        for subscriber in self._live.subscribers:
            session = sessions.get(subscriber.session_id)
            if isinstance(session, Playing):
                yield session
