"""What a card of the wall and the API show of a stream (contracts.StreamSnapshot)."""

from heapq import nlargest
from typing import Final

from ingest.contracts import Sample, SlowPlayer, StreamSnapshot
from ingest.live.stream import LiveStream

SLOWEST: Final = 5
"""Players that a snapshot names."""


def snapshot(stream: LiveStream) -> StreamSnapshot:
    """As of the latest tick. Metrics are null unless the stream is live; bitrates and fps are 5 s means."""
    publication = stream.publication
    publisher, meter = (publication.publisher, publication.meter) if publication else (None, None)
    state = stream.state
    sample: Sample | None = meter.latest if meter is not None and state == "live" else None
    shown = meter.shown if meter is not None and sample is not None else None
    return StreamSnapshot(
        id=stream.labels["stream"],
        app=stream.app,
        name=stream.name,
        state=state,
        health=publication.health if publication else "none",
        issues=publication.issues if publication else [],
        players=stream.player_count,
        session_id=publisher.session_id if publisher else None,
        node=stream.node,
        since=publisher.started if publisher else None,
        address=publisher.address if publisher else "",
        encoder=publication.encoder if publication else "",
        target_kbps=publication.target_kbps if publication else None,
        video_kbps=shown.video.kbps if shown else None,
        audio_kbps=shown.audio.kbps if shown else None,
        wire_kbps=shown.wire.kbps if shown else None,
        out_kbps=shown.out.kbps if shown else None,
        fps=sample.fps if sample else None,
        fps_media=sample.fps_media if sample else None,
        keyframe_interval=sample.keyframe_interval if sample else None,
        open_gop_age=sample.open_gop_age if sample else None,
        drift=sample.drift if sample else None,
        drift_dev=sample.drift_dev if sample else None,
        av_skew=sample.av_skew if sample else None,
        idle_ms=sample.idle_ms if sample else None,
        rtt_ms=sample.rtt_ms if sample else None,
        retrans=sample.retrans if sample else None,
        ts_gap=sample.ts_gap if sample else None,
        ts_regress=sample.ts_regress if sample else None,
        missing_frames_est=sample.missing_frames_est if sample else None,
        media_faults=meter.media_faults if meter is not None and sample is not None else None,
        timestamp_repairs=stream.time.repairs if sample else None,
        slow_players=sample.slow_players if sample else 0,
        dropped_frames=shown.dropped.sum if shown else 0,
        slowest=[
            SlowPlayer(
                session_id=each.session_id,
                dropped_video=each.dropped_video,
                dropped_audio=each.dropped_audio,
                sheds=each.sheds,
                queued_ms=each.pending_ms,
            )
            for each in nlargest(SLOWEST, stream.subscribers, key=lambda each: each.dropped_frames)
            if each.dropped_frames
        ],
        counters=stream.counters,
        media=stream.media,
        metadata=publication.metadata if publication else {},
    )
