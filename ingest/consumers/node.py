"""The application behind one RTMP listener: its ticks to pages and lake, and its upkeep in the database.

What a tick says of its sessions, compared with the tick before, becomes their events: issues, and what is sent. Of
thumbnails it keeps the latest, and tells the server which of them are looked at."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from channels.exceptions import StopConsumer
from django.conf import settings

from ingest import clock, pages
from ingest.consumers import channel_layer, login, recorder, recordings
from ingest.consumers.active import AWAITED, COUNTS, DRAINING, ActiveSession, of_node, of_snapshot
from ingest.consumers.base import ControlConsumer
from ingest.consumers.notices import REFUSALS, take_drops
from ingest.consumers.upkeep import Upkeep
from ingest.contracts import (
    Issue,
    MediaInfo,
    NodeChange,
    NodeFigures,
    NodeRecords,
    NodeScope,
    NodeThumbnail,
    NodeTick,
    NodeWatch,
    RefusedGroup,
    Sample,
    StreamSnapshot,
)
from ingest.contracts.connection import RecordEvent
from ingest.contracts.figures import CHECK_NAMES
from ingest.contracts.relays import PushChange
from ingest.live_store import CompactSample, Thumbnail, get_livestore
from ingest.models import Node, names
from ingest.pages import WallFeed, node_card
from ingest.services import media_urls
from ingest.services.history_writer import get_history
from ingest.telemetry import TelemetryWriter, set_writer

logger = logging.getLogger(__name__)


class Thumbnails:
    def __init__(self) -> None:
        self._kept: dict[str, int] = {}
        """When the last picture of each publisher was taken, by session: once it can be had."""
        self._watched: list[str] = []
        self._is_failing = False

    async def keep(self, event: NodeThumbnail) -> None:
        try:
            await get_livestore().put_thumbnail(event["path"], Thumbnail(event["at_ms"], event["image"]))
        except Exception as error:
            if not self._is_failing:
                logger.warning(
                    "The live store takes no thumbnails: %s. Pages show the former ones.", type(error).__name__
                )
            self._is_failing = True
        else:
            self._is_failing = False
            self._kept[event["session_id"]] = event["at_ms"]

    def stamp(self, streams: Sequence[StreamSnapshot]) -> None:
        """Says in each snapshot when the picture of its publisher was taken."""
        kept, self._kept = self._kept, {}
        for snapshot in streams:
            session = snapshot["session_id"]
            at_ms = snapshot["thumbnail"] = kept.get(session) if session else None
            if session and at_ms is not None:
                self._kept[session] = at_ms

    async def watched(self) -> NodeWatch | None:
        """What to tell the server, if that has changed. Raises what the store does."""
        watched = sorted(await get_livestore().awatched())
        if watched == self._watched:
            return None
        self._watched = watched
        return {"type": "node.watch", "paths": watched}


MAX_CHANGES: Final = 50
"""Of what a session sends that are told: a peer may cause one each second."""


def record_changes(streams: Iterable[StreamSnapshot]) -> None:
    """Once a second. What was told last is kept with the session; when it ends, so do its issues (`recorder.end`)."""
    for snapshot in streams:
        session = of_snapshot(snapshot)
        if session is not None:
            issues, media = snapshot["issues"], snapshot["media"]
            if issues or session.issues:
                _record_issues(session, issues)
            if media is not session.media:
                _record_config(session, media)


def _record_issues(session: ActiveSession, issues: Sequence[Issue]) -> None:
    before, session.issues = session.issues, issues
    opened, cleared = _changed_issues(before, issues)
    for issue in opened:
        recorder.opened(session, issue)
    for issue in cleared:
        recorder.cleared(session, issue)


def log_node(node: str, before: Sequence[Issue], now: Sequence[Issue]) -> None:
    """A node's own issues go into the log when they open, change their level or clear; pages show its figures."""
    opened, cleared = _changed_issues(before, now)
    for issue in opened:
        level = logging.ERROR if issue["level"] == "bad" else logging.WARNING
        logger.log(level, "Node %s: %s %s", node, issue["title"], issue["advice"], extra={"check": issue["check"]})
    for check in (issue["check"] for issue in cleared):
        logger.info("Node %s: cleared: %s.", node, CHECK_NAMES.get(check, check), extra={"check": check})


def _changed_issues(before: Sequence[Issue], now: Sequence[Issue]) -> tuple[list[Issue], list[Issue]]:
    """Those that opened or changed their level, and those that are over."""
    former, found = ({issue["check"]: issue["level"] for issue in issues} for issues in (before, now))
    opened = [issue for issue in now if former.get(issue["check"]) != issue["level"]]
    return opened, [issue for issue in before if issue["check"] not in found]


# --- What is sent ---


CONFIG: Final = {
    "Video codec": "{video_codec}",
    "Resolution": "{width}×{height}",
    "Frame rate": "{frame_rate:g}",
    "Bit depth": "{bit_depth}",
    "Audio codec": "{audio_codec}",
    "Sample rate": "{sample_rate} Hz",
    "Channels": "{channels}",
}
"""What is told when it changes, in words of MediaInfo's fields."""


def _record_config(session: ActiveSession, media: MediaInfo) -> None:
    """What is known of the media and was another before. What becomes known changes nothing."""
    found = {}
    for name, words in CONFIG.items():
        with suppress(KeyError):
            found[name] = words.format_map(media)
    changed = [
        {"what": name, "before": session.config[name], "after": value}
        for name, value in found.items()
        if session.config.get(name, value) != value
    ]
    session.media, session.config = media, session.config | found
    if changed and session.config_changes < MAX_CHANGES:
        session.config_changes += 1
        changes = [f"{each['what']} {each['after']}, before {each['before']}" for each in changed]
        recorder.record(
            session,
            recorder.event_now(
                "config.changed",
                level="status",
                code="codec_change",
                description=f"The encoder sends something else: {'; '.join(changes)}.",
                detail={"changed": changed},
            ),
        )


SESSIONS_END_S = 2.0
"""At the stop: how long the node waits for its sessions to end,"""
MAINTENANCE_S = 1.0
"""for what it does to its recordings, which a disk may hold up,"""
STOP_S = 8.0
"""and for this, its state and history to be written; so that what is lost is said before the server gives it up."""


class NodeConsumer(ControlConsumer):
    scope: NodeScope
    upkeep: Upkeep
    maintenance: recordings.RecordingMaintenance

    def __init__(self) -> None:
        super().__init__()
        self.telemetry: TelemetryWriter | None = None
        self.shown: dict[int, StreamSnapshot] = {}
        """The snapshots of the last tick that pages were sent, by stream id,"""
        self.shown_at: float | None = None
        """and when that was."""
        self.refused_shown: list[RefusedGroup] = []
        self.showing = False
        self.wall = WallFeed()
        self.thumbnails = Thumbnails()
        self.storing = False
        self.store_failing = False

    @property
    def node(self) -> str:
        return self.scope["node"]

    async def began(self) -> None:
        addresses = [f"{host}:{port}" for host, port in self.scope["addresses"]]
        addresses += [f"{host}:{port} (TLS)" for host, port in self.scope["tls_addresses"]]
        addresses += [f"{host}:{port} (media)" for host, port in self.scope["media_addresses"]]
        addresses += [f"{host}:{port} (HLS)" for host, port in self.scope["hls_addresses"]]
        url = partial(media_urls.node_url, self.scope["addresses"], self.scope["tls_addresses"])
        self.upkeep = Upkeep(self.node, ", ".join(addresses), self.send, url=url, local=self.scope["local"])
        self.maintenance = recordings.RecordingMaintenance(self.node)

    async def node_started(self, event: NodeChange) -> None:
        DRAINING.discard(self.node)
        self.telemetry = TelemetryWriter(settings.LAKE_DIR, self.node)
        set_writer(self.telemetry)
        self.spawn(asyncio.to_thread(self.telemetry.start))
        self.start_rounds()

    def start_rounds(self) -> None:
        now = asyncio.get_running_loop().time()
        for round_ in self.upkeep.due(now):
            self.spawn(round_)
        if self.upkeep.has_started:
            self.maintenance.resume(now)

    # --- The tick ---

    async def node_tick(self, event: NodeTick) -> None:
        try:
            await self._tick(event)
        except Exception:  # One bad tick must not be the last.
            logger.exception("A tick failed")
        self.start_rounds()

    async def _tick(self, event: NodeTick) -> None:
        known = [each for each in event["streams"] if each["id"]]  # The others are names that players wait for.
        streams, _ = names.without_key_tests(known)
        samples = [sample for sample in event["samples"] if not names.is_key_test(sample.name)]
        waiting = {f"{each['app']}/{each['name']}" for each in event["streams"] if _is_waited_for(each)}
        AWAITED[self.node] = len(waiting)
        self.upkeep.silences.observe(samples)
        self.upkeep.relaying.observe(waiting, event["figures"].get("relays", []))
        if self.telemetry is not None and samples:
            self.telemetry.samples(samples)
        record_changes(known)
        issues = event["figures"].get("issues", [])
        log_node(self.node, self.upkeep.issues, issues)
        self.upkeep.issues = issues
        self.thumbnails.stamp(known)
        self.upkeep.pushes.stamp(streams, event.get("pushes", ()))
        self.upkeep.pulls.observe(known, event.get("pulls", ()))
        for refused in event["refused"]:
            recorder.overcrowded(refused["address"], self.node, refused["count"])
        compact = {sample.stream: _compact(sample) for sample in samples}
        figures: NodeFigures = {
            **event["figures"],
            "records": self._records(),
            "counts": COUNTS.figures,
            "refused": REFUSALS.now(clock.now()),
        }
        if self.upkeep.node_address is not None:
            figures["address"] = self.upkeep.node_address
        if not self.showing:
            self.showing = True
            self.spawn(self._show(figures, streams, compact))
        if not self.storing:
            self.storing = True
            self.spawn(self._store(figures, known, compact))

    async def node_thumbnail(self, event: NodeThumbnail) -> None:
        self.spawn(self.thumbnails.keep(event))

    async def node_pushed(self, event: PushChange) -> None:
        self.upkeep.pushes.changed(event)

    def _records(self) -> NodeRecords:
        history, telemetry = get_history(), self.telemetry
        return {
            "history_waiting": history.waiting,
            "history_dropped": history.dropped,
            "telemetry_dropped": telemetry.dropped if telemetry is not None else 0,
            "telemetry_failing_since": telemetry.failing_since if telemetry is not None else None,
        }

    async def _show(
        self, figures: NodeFigures, streams: Sequence[StreamSnapshot], compact: Mapping[int, CompactSample]
    ) -> None:
        """What changed to the wall, each stream to its own page; nothing is serialised that nobody looks at. A layer
        that is slow misses ticks rather than delaying them."""
        at = figures["at"]
        former, shown = self.shown, {snapshot["id"]: snapshot for snapshot in streams}
        gone = [stream for stream in former if stream not in shown]
        own = {pages.stream_group(stream): stream for stream in (*shown, *gone)}
        try:
            watched = await channel_layer.with_members([pages.WALL, *own])
        except Exception as error:
            channel_layer.warn_of_layer(error)
        else:
            prior, self.shown, self.shown_at = self.shown_at, shown, at
            if pages.WALL in watched:
                changes = await self.wall.changes(former, shown)
                update = pages.update(
                    self.node,
                    at=at,
                    prior=prior,
                    nodes=[self._card(figures)],
                    streams=changes,
                    gone=gone,
                    drops=take_drops(),
                )
                channel_layer.send_to_group(pages.WALL, lambda: update)
            for group in watched:
                if group in own:
                    channel_layer.send_to_group(
                        group, partial(_sample, at, shown.get(own[group]), compact.get(own[group]))
                    )
        finally:
            self.showing = False

    def _card(self, figures: NodeFigures) -> NodeFigures:
        """Who was refused is told again when it changed: pages keep it."""
        card = node_card(figures)
        refused = card.get("refused", [])
        if refused == self.refused_shown:
            card.pop("refused", None)
        self.refused_shown = refused
        return card

    async def _store(
        self, figures: NodeFigures, streams: Sequence[StreamSnapshot], compact: Mapping[int, CompactSample]
    ) -> None:
        """Into the LiveStore. A store that is slow misses ticks rather than delaying them."""
        store = get_livestore()
        try:
            text = await pages.to_json_list(streams) if store.wants_text else None
            await store.put_node(figures, streams, text=text)
            await store.append_samples(compact)
            if watch := await self.thumbnails.watched():
                await self.send(watch)
        except Exception as error:
            if not self.store_failing:
                logger.warning(
                    "The live store takes no snapshots: %s. Pages show nothing of this node until it does.",
                    type(error).__name__,
                )
            self.store_failing = True
        else:
            if self.store_failing:
                logger.info("The live store takes snapshots again.")
            self.store_failing = False
        finally:
            self.storing = False

    async def node_record(self, event: RecordEvent) -> None:
        recordings.note(event)

    # --- The end ---

    def ended(self) -> None:
        """Without `node.stopped` before it, the server starts another application, which makes its own writer."""
        if self.telemetry is not None:
            set_writer(None)
            asyncio.get_running_loop().run_in_executor(None, self.telemetry.close)
            self.telemetry = None

    async def node_draining(self, event: NodeChange) -> None:
        DRAINING.add(self.node)
        login.release_delayed(self.node)
        self.spawn(self.upkeep.enter(Node.State.DRAINING))

    async def node_resumed(self, event: NodeChange) -> None:
        DRAINING.discard(self.node)
        self.spawn(self.upkeep.enter(Node.State.UP))

    async def node_stopped(self, event: NodeChange) -> None:
        """The last event: sessions have ended or are about to; what is known of them is written before it returns."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while of_node(self.node) and loop.time() < began + SESSIONS_END_S:  # noqa: ASYNC110 - at most 100 looks.
            await asyncio.sleep(0.02)
        await self.maintenance.stop(MAINTENANCE_S)
        await self.upkeep.stopped()  # Behind its rounds' writes, of which the lake is told too.
        # What the database takes its time for is not added to what the lake's disk does.
        await asyncio.gather(self._close_history(began + STOP_S), self._close_telemetry())
        await self._forget()
        DRAINING.discard(self.node)
        AWAITED.pop(self.node, None)
        raise StopConsumer

    async def _close_history(self, until: float) -> None:
        if not await asyncio.to_thread(get_history().flush, max(0.0, until - asyncio.get_running_loop().time())):
            logger.error("The database did not take the last %d entries of history.", get_history().waiting)

    async def _close_telemetry(self) -> None:
        if self.telemetry is not None:
            set_writer(None)
            await asyncio.to_thread(self.telemetry.close)
            self.telemetry = None

    async def _forget(self) -> None:
        gone = list(self.shown)
        last = pages.update(self.node, at=clock.now(), prior=self.shown_at, nodes=[], streams="[]", gone=gone)
        channel_layer.send_to_group(pages.WALL, lambda: last)
        try:
            await asyncio.to_thread(get_livestore().remove_node, self.node)
        except Exception as error:
            logger.warning("The live store did not forget the node: %s", type(error).__name__)


def _is_waited_for(stream: StreamSnapshot) -> bool:
    return stream["session_id"] is None and stream["state"] == "waiting"


def _sample(at: float, stream: StreamSnapshot | None, sample: CompactSample | None) -> dict[str, Any]:
    return {"type": "stream.sample", "text": pages.sample_text(at=at, stream=stream, sample=sample)}


def _compact(sample: Sample) -> CompactSample:
    return {
        "at": sample.at_us / 1e6,
        "video_kbps": sample.video_kbps,
        "audio_kbps": sample.audio_kbps,
        "fps": sample.fps,
        "keyframe_interval": sample.keyframe_interval,
        "drift": sample.drift,
        "drift_dev": sample.drift_dev,
        "rtt_ms": sample.rtt_ms,
        "players": sample.players,
        "health": sample.health,
    }
