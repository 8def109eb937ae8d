"""A viewer as the simplest players are, in a thread of its own while a test stops parts: it asks for the same media
playlist again and again, and once for each segment.

    with following(hls_url) as viewer:
        ...
    viewer.check()
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx

from tests.hls.mp4 import read_fragments, read_init
from tests.hls.playlist import MediaPlaylist, MultivariantPlaylist, Segment, read
from tests.server_process import wait_for

POLL_S: Final = 0.3
ANSWER_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A segment. `begins_s`: by its media; `date`: by the playlist, in seconds since the epoch; `at`: when it had come,
    likewise."""

    msn: int
    uri: str
    begins_s: float
    date: float
    at: float

    @property
    def epoch(self) -> str:
        return self.uri.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that was none: `status` 0: no connection, or none in time."""

    name: str
    status: int
    words: str
    at: float


class Follower:
    def __init__(self, url: str) -> None:
        """`url`: of the multivariant playlist, which is asked for until it is there."""
        self.url = url
        self.playlist = ""
        """The URL that it goes by from then on."""
        self.taken: list[Taken] = []
        self.failures: list[Failure] = []
        self._inits: dict[str, bytes] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    @property
    def viewer(self) -> str:
        """Its id."""
        return parse_qs(urlsplit(self.playlist).query)["viewer"][0]

    @property
    def epochs(self) -> list[str]:
        return list(dict.fromkeys(one.epoch for one in self.taken))

    def wait_for_more(self, count: int = 1, *, timeout_s: float) -> None:
        """So many segments more."""
        wanted = len(self.taken) + count
        try:
            wait_for(lambda: len(self.taken) >= wanted, timeout_s=timeout_s, what=f"{count} segments more")
        except AssertionError as error:
            raise AssertionError(f"{error}; failed: {self.failures[-5:]}") from None

    def check(self) -> None:
        """Numbers and times of day rise; within what one packager made of a stream nothing is missing, and the media's
        times rise."""
        for one, after in zip(self.taken, self.taken[1:], strict=False):
            assert after.msn > one.msn, (one, after)
            assert after.date > one.date, (one, after)
            if after.epoch == one.epoch:
                assert after.msn == one.msn + 1, (one, after)
                assert after.begins_s > one.begins_s, (one, after)

    def _run(self) -> None:
        with httpx.Client(timeout=ANSWER_S) as client:
            while not self._over.is_set():
                with suppress(httpx.HTTPStatusError, httpx.TransportError):
                    self._look(client)
                self._over.wait(POLL_S)

    def _get(self, client: httpx.Client, url: str) -> bytes:
        name = urlsplit(url).path.rpartition("/")[2]
        try:
            answer = client.get(url)
        except httpx.TransportError as error:
            self.failures.append(Failure(name, 0, repr(error), time.time()))
            raise
        if answer.is_error:
            self.failures.append(Failure(name, answer.status_code, answer.text, time.time()))
        return answer.raise_for_status().content

    def _look(self, client: httpx.Client) -> None:
        if not self.playlist:
            found = read(self._get(client, self.url).decode())
            assert isinstance(found, MultivariantPlaylist)
            self.playlist = urljoin(self.url, found.variants[0].uri)
        playlist = read(self._get(client, self.playlist).decode())
        assert isinstance(playlist, MediaPlaylist)
        last = self.taken[-1].msn if self.taken else playlist.segments[-1].msn - 1 if playlist.segments else 0
        for segment in playlist.segments:
            if segment.msn > last:
                self._take(client, segment)

    def _take(self, client: httpx.Client, segment: Segment) -> None:
        if segment.map_uri not in self._inits:
            self._inits[segment.map_uri] = self._get(client, urljoin(self.playlist, segment.map_uri))
        body = self._get(client, urljoin(self.playlist, segment.uri))
        run = read_fragments(body, read_init(self._inits[segment.map_uri]))[0][0]
        date = datetime.fromisoformat(segment.date_time).timestamp()
        begins_s = run.begins / run.track.timescale
        self.taken.append(Taken(segment.msn, segment.uri, begins_s, date, time.time()))

    def __enter__(self) -> "Follower":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(ANSWER_S)


@contextmanager
def following(url: str, *, timeout_s: float = 20) -> Iterator[Follower]:
    """From its first segment on."""
    with Follower(url) as viewer:
        viewer.wait_for_more(timeout_s=timeout_s)
        yield viewer
