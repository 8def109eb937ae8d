"""What a card of the wall and the API show of a stream (contracts.StreamSnapshot)."""

from collections.abc import Iterable
from heapq import nlargest
from typing import Final

from ingest.contracts import Sample, SlowPlayer, StreamSnapshot
from ingest.live.stream import LiveStream
from ingest.live.subscriber import Subscriber

SLOWEST: Final = 5
"""Players that a snapshot names."""


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
        health=publication.health if publication is not None else "none",
        issues=publication.issues if publication is not None else [],
        players=stream.player_count if players else 0,
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
        media=stream.media,
        metadata=publication.metadata if publication is not None else {},
    )


def _slowest(players: Iterable[Subscriber]) -> list[SlowPlayer]:
    return [
        SlowPlayer(
            session_id=each.session_id,
            dropped_video=each.dropped_video,
            dropped_audio=each.dropped_audio,
            sheds=each.sheds,
            queued_ms=each.pending_ms,
        )
        for each in nlargest(SLOWEST, players, key=lambda each: each.dropped_frames)
        if each.dropped_frames
    ]
