"""Once a second: what a node tells of all its streams, and what a card of the wall and the API show of each one
(contracts.StreamSnapshot)."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final

from ingest.contracts import MediaCounters, PlayerSample, Sample, SlowPlayer, StreamSnapshot
from ingest.live.counters import sum_counters
from ingest.live.stream import LiveStream, Registry
from ingest.live.subscriber import Subscriber

SLOWEST: Final = 5


def snapshot(stream: LiveStream) -> StreamSnapshot:
    """As of the latest tick. Metrics are null unless the stream is live; bitrates and fps are 5 s means."""
    publication, state = stream.publication, stream.state
    publisher, meter = (publication.publisher, publication.meter) if publication is not None else (None, None)
    sample: Sample | None = meter.latest if meter is not None and state == "live" else None
    if sample is None:
        meter = None
    players = stream.subscribers
    return StreamSnapshot(
        id=stream.labels["stream"],
        app=stream.app,
        name=stream.name,
        state=state,
        health=publication.shown_health if publication is not None else "none",
        checking_s=publication.evaluation.checking_s if publication is not None and meter is not None else None,
        issues=publication.evaluation.health.issues if publication is not None else [],
        players=stream.player_count if players else 0,
        viewers=stream.beyond.total.viewers if players else 0,
        session_id=publisher.session_id if publisher is not None else None,
        node=stream.node,
        since=publisher.started if publisher is not None else None,
        address=publisher.address if publisher is not None else "",
        encoder=publication.encoder if publication is not None else "",
        target_kbps=publication.target_kbps if publication is not None else None,
        video_kbps=meter.video_kbps if meter is not None else None,
        audio_kbps=meter.audio_kbps if meter is not None else None,
        wire_kbps=meter.wire_kbps if meter is not None else None,
        out_kbps=meter.out_kbps if meter is not None else None,
        fps=sample.fps if sample is not None else None,
        fps_media=sample.fps_media if sample is not None else None,
        keyframe_interval=sample.keyframe_interval if sample is not None else None,
        open_gop_age=sample.open_gop_age if sample is not None else None,
        drift=sample.drift if sample is not None else None,
        drift_dev=sample.drift_dev if sample is not None else None,
        av_skew=sample.av_skew if sample is not None else None,
        idle_ms=sample.idle_ms if sample is not None else None,
        rtt_ms=sample.rtt_ms if sample is not None else None,
        retrans=sample.retrans if sample is not None else None,
        ts_gap=sample.ts_gap if sample is not None else None,
        ts_regress=sample.ts_regress if sample is not None else None,
        missing_frames_est=sample.missing_frames_est if sample is not None else None,
        media_faults=meter.reading.media_faults if meter is not None else None,
        timestamp_repairs=stream.time.repairs if sample is not None else None,
        slow_players=sample.slow_players if sample is not None else 0,
        dropped_frames=meter.figures.dropped_frames if meter is not None else 0,
        slowest=_slowest(players) if players else [],
        counters=stream.counters,
        relayed_to=stream.beyond.nodes,
        media=stream.media,
        metadata=publication.metadata if publication is not None else {},
    )


def _slowest(players: Iterable[Subscriber]) -> list[SlowPlayer]:
    losing = [
        each
        for each in players
        if not each.passes_on_to and (each.is_behind or each.dropped_video or each.dropped_audio)
    ]
    return [
        SlowPlayer(
            session_id=each.session_id,
            dropped_video=each.dropped_video,
            dropped_audio=each.dropped_audio,
            sheds=each.sheds,
            queued_ms=each.behind_ms,
        )
        for each in nlargest(SLOWEST, losing, key=lambda each: (each.dropped_frames, each.behind_ms))
    ]


@dataclass(slots=True)
class TickReport:
    samples: list[Sample] = field(default_factory=list)
    streams: list[StreamSnapshot] = field(default_factory=list)
    players: list[PlayerSample] = field(default_factory=list)
    breaches: list[tuple[str, str]] = field(default_factory=list)
    """Publishers that stayed over their key's limit: the session's id, and why it must end."""
    unrecorded: int = 0
    """Publishers that are to be recorded, and are not just now."""
    counted: list[MediaCounters] = field(default_factory=list)
    viewers: int = 0
    """This node's own by HLS."""

    @property
    def counters(self) -> MediaCounters:
        return sum_counters(self.counted)


class Tick:
    """One second's round of all streams. It is made in portions, since media has to be served between two of them.

    Streams long idle are forgotten as it begins; one that comes after that is told of in the next.
    """

    def __init__(self, registry: Registry, now: float) -> None:
        """`now` is monotonic, in seconds."""
        registry.discard_idle(now)
        self._left = deque(registry.streams.values())
        self.report = TickReport(counted=[registry.forgotten])

    def advance(self, now: float, wall: float, most: int | None = None) -> bool:
        """The next streams, so many at most (None: all). Whether that was the last. `wall`: seconds since the epoch."""
        for _ in range(len(self._left) if most is None else min(most, len(self._left))):
            self._add(self._left.popleft(), now, wall)
        return not self._left

    def _add(self, stream: LiveStream, now: float, wall: float) -> None:
        report, publication = self.report, stream.publication
        report.samples += stream.tick(now, wall)
        report.viewers += stream.beyond.here.players
        if players := stream.subscribers:
            report.players += [_player(stream.path, player) for player in players if not player.passes_on_to]
        if stream.is_relayed:
            report.counted.append(stream.counters)
            return
        if publication is not None:
            if breach := publication.evaluation.limit.breach(now):
                report.breaches.append((publication.publisher.session_id, breach))
            report.unrecorded += bool(publication.evaluation.figures.recording_failure)
        shown = snapshot(stream)
        report.counted.append(shown["counters"])
        report.streams.append(shown)


def _player(path: str, player: Subscriber) -> PlayerSample:
    return PlayerSample(
        session_id=player.session_id,
        path=path,
        out_bytes=player.sent_bytes,
        dropped_frames=player.dropped_frames,
        queued_ms=player.pending_ms,
        dropped_video=player.dropped_video,
        dropped_audio=player.dropped_audio,
        sheds=player.sheds,
    )
