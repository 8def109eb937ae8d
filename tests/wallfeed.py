"""A wall without media: nodes made up by a test, told by the server's own code to a page in a browser."""

import json
import random
import time
from collections.abc import Iterable, Sequence
from typing import Any, cast

from playwright.sync_api import Page, WebSocketRoute

from dashboard.streams.queries import Now
from dashboard.streams.snapshots import wall_text
from ingest import pages
from ingest.contracts import Issue, NodeFigures, RefusedGroup, StreamSnapshot
from ingest.live_store import LiveView
from ingest.pages import Drop, WallFeed
from tests import snapshots
from tests.loops import run
from tests.snapshots import figures, snapshot

MEDIA = {
    "video_codec": "H.264",
    "video_codec_string": "avc1.64001f",
    "width": 1280,
    "height": 720,
    "profile": "High",
    "level": "3.1",
    "audio_codec": "AAC",
    "audio_codec_string": "mp4a.40.2",
    "sample_rate": 48000,
    "channels": 2,
}


def made(stream: int, name: str = "", **fields: Any) -> StreamSnapshot:
    own = {
        "name": name or f"cam-{stream}",
        "players": stream % 40,
        "session_id": f"00000000-0000-4000-8000-{stream:012d}",
        "since": time.time() - 1000 - stream,
        "media": MEDIA,
        "thumbnail": None,
    }
    return snapshot(stream, **(own | fields))


def issue(check: str = "bitrate_low", level: str = "bad", **fields: Any) -> Issue:
    own = {
        "since": time.time() - 112,
        "actual": "980 kbit/s",
        "expected": "1,750 kbit/s at least",
        "title": "Bitrate is far below its target",
        "advice": "The uplink can’t carry this rate: lower it, or use a cable.",
    }
    return snapshots.issue(check, level, **(own | fields))


def varied(snapshot: StreamSnapshot, chance: random.Random) -> StreamSnapshot:
    """The same a second later: all that moves on a stream that is well has moved."""
    fields = {
        "video_kbps": chance.gauss(2480, 60),
        "audio_kbps": chance.gauss(128, 1),
        "wire_kbps": chance.gauss(2650, 60),
        "out_kbps": chance.gauss(7800, 90),
        "fps": chance.gauss(30, 0.05),
        "fps_media": chance.gauss(30, 0.02),
        "open_gop_age": chance.uniform(0, 2),
        "drift": chance.gauss(12, 3),
        "drift_dev": chance.gauss(3, 1),
        "av_skew": chance.gauss(-8, 5),
        "idle_ms": chance.randrange(40),
        "rtt_ms": chance.gauss(14, 2),
        "players": max(0, snapshot["players"] + chance.choice((0, 0, 0, 1, -1))),
    }
    return snapshot | fields  # type: ignore[return-value]


def dropped(stream: StreamSnapshot, at: float, reason: str = "tcp_reset", **fields: Any) -> Drop:
    """How it ended."""
    own = {name: stream[name] for name in ("app", "name", "node")}
    made: Any = pages.drop(session=stream["session_id"] or "", stream=stream["id"], at=at, reason=reason, **own)
    return cast(Drop, made | fields)


def refused(count: int, ago_s: float, over_s: float, **fields: Any) -> RefusedGroup:
    """Wrong keys of one encoder, the last `ago_s` ago."""
    at = time.time() - ago_s
    usual = {"reason": "key_unknown", "words": "Wrong key", "app": "live", "name": "…", "address": "203.0.113.7"}
    return cast(RefusedGroup, usual | {"count": count, "since": at - over_s, "at": at} | fields)


class Node:
    """One node: what it knows now, and what it tells the wall of it."""

    def __init__(self, name: str = "n1") -> None:
        self.name = name
        self.streams: dict[int, StreamSnapshot] = {}
        self.shown: dict[int, StreamSnapshot] = {}
        self.shown_at: float | None = None
        self.feed = WallFeed()
        self.fields: dict[str, Any] = {}
        self.dropped: list[Drop] = []
        """Since the last tick."""

    def put(self, *snapshots: StreamSnapshot) -> None:
        self.streams |= {each["id"]: each | {"node": self.name} for each in snapshots}

    def drop(self, stream: int, reason: str = "tcp_reset") -> Drop:
        """Its encoder dies."""
        known = self.streams.pop(stream)
        found = dropped(known, time.time(), reason)
        self.dropped.append(found)
        return found

    def figures(self, at: float) -> NodeFigures:
        own = {
            "streams": len(self.streams),
            "publishers": len(self.streams),
            "players": sum(each["players"] for each in self.streams.values()),
        }
        return figures(self.name, at, **(own | self.fields))

    async def tick(self, at: float) -> dict[str, Any]:
        """A message of the channel layer."""
        former, self.shown = self.shown, dict(self.streams)
        dropped, self.dropped = self.dropped, []
        prior, self.shown_at = self.shown_at, at
        return pages.update(
            self.name,
            at=at,
            prior=prior,
            nodes=[self.figures(at)],
            streams=await self.feed.changes(former, self.shown),
            gone=[stream for stream in former if stream not in self.shown],
            drops=dropped,
        )


async def picture(nodes: Iterable[Node], drops: Sequence[Drop] = ()) -> str:
    """A snapshot of what the nodes told last."""
    view = LiveView(
        [node.figures(node.shown_at or 0.0) for node in nodes],
        [stream for node in nodes for stream in node.shown.values()],
    )
    known = [{"id": each["id"], "app": each["app"], "name": each["name"], "state": "offline"} for each in view.streams]
    return await wall_text(Now.of(view), known, {}, drops)


class Wall:
    """The wall in a browser, on made-up nodes. Open the page after it; `tell` is one second of all nodes."""

    def __init__(self, page: Page, *nodes: Node, drops: Sequence[Drop] = ()) -> None:
        self.nodes = nodes
        self.drops = drops
        self.at = time.time()
        self.sockets: list[WebSocketRoute] = []
        self.away = False
        for node in nodes:
            run(node.tick(self.at))
        page.route_web_socket("**/ws/live/", self._open)
        page.route("**/live/recent/", lambda route: route.fulfill(json={"items": {}}))
        page.route("**/thumbnail.webp*", lambda route: route.fulfill(content_type="image/svg+xml", body=THUMBNAIL))

    def _open(self, socket: WebSocketRoute) -> None:
        if self.away:
            socket.close(code=4503)
            return
        self.sockets = [socket]
        socket.send(run(picture(self.nodes, self.drops)))

    def tell(self, *, lost: bool = False) -> list[dict[str, Any]]:
        """The next second; `lost`: on its way."""
        self.at += 1
        messages = [run(node.tick(self.at)) for node in self.nodes]
        for message in [] if lost else messages:
            self.say(message["text"])
        return [json.loads(message["text"]) for message in messages]

    def mark(self, stream: int, *, muted: Iterable[Any] = (), acknowledged: Iterable[Any] = ()) -> None:
        marks = {str(stream): {"muted": list(muted), "acknowledged": list(acknowledged)}}
        nothing: dict[str, Any] = {"kind": "update", "at": self.at, "node": "", "nodes": [], "streams": [], "gone": []}
        self.say(json.dumps(nothing | {"marks": marks}))

    def say(self, text: str) -> None:
        for socket in self.sockets:
            socket.send(text)

    def cut(self) -> None:
        """The server goes away, until `away` is False again."""
        self.away = True
        for socket in self.sockets:
            socket.close(code=4503)


THUMBNAIL = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="320" height="180"><rect width="320" height="180" fill="#2d6a8e"/>'
    '<path d="M60 170 110 50h100l50 120Z" fill="#3f8f64"/></svg>'
)
