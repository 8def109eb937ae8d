"""What a node tells each second, as the live store and the pages get it: of itself, its streams, and what is wrong."""

import time
from typing import Any, cast

from ingest.contracts import Issue, NodeFigures, StreamSnapshot


def figures(node: str = "n1", at: float | None = None, **fields: Any) -> NodeFigures:
    """`at`: None for now."""
    base: NodeFigures = {
        "node": node,
        "at": time.time() if at is None else at,
        "streams": 1,
        "publishers": 1,
        "players": 3,
        "connections": 4,
        "refused_connections": 0,
        "in_kbps": 2600.0,
        "out_kbps": 7800.0,
        "loop_delay_ms": 1.0,
        "cpu_percent": 12.0,
        "disk_free_percent": 60.0,
    }
    return cast(NodeFigures, base | fields)


def snapshot(stream: int = 1, **fields: Any) -> StreamSnapshot:
    """Of a stream on air."""
    base: StreamSnapshot = {
        "id": stream,
        "app": "live",
        "name": "cam1",
        "state": "live",
        "health": "good",
        "issues": [],
        "players": 3,
        "session_id": "5ffb6b56-4c9a-4f7e-93a1-0f6c3a1f6f01",
        "node": "n1",
        "since": 1_700_000_000.0,
        "address": "192.0.2.7",
        "encoder": "OBS 30",
        "target_kbps": 2500,
        "video_kbps": 2480.5,
        "audio_kbps": 128.25,
        "wire_kbps": 2650.0,
        "out_kbps": 7800.0,
        "fps": 29.97,
        "fps_media": 30.0,
        "keyframe_interval": 2.0,
        "open_gop_age": 0.5,
        "drift": 12.0,
        "drift_dev": 3.0,
        "av_skew": -8.0,
        "idle_ms": 20,
        "rtt_ms": 14.5,
        "retrans": 0,
        "ts_gap": 0,
        "ts_regress": 0,
        "missing_frames_est": 0,
        "media_faults": 0,
        "timestamp_repairs": 0,
        "slow_players": 0,
        "dropped_frames": 0,
        "slowest": [],
        "media": {"video_codec": "H.264", "audio_codec": "AAC", "width": 1280, "height": 720},
        "metadata": {},
    }
    return cast(StreamSnapshot, base | fields)


def issue(check: str = "starving", level: str = "bad", **fields: Any) -> Issue:
    """Of a stream or a node."""
    base: dict[str, Any] = {
        "check": check,
        "level": level,
        "since": 1_700_000_000.25,
        "actual": "7 s",
        "expected": "at most 5 s",
        "title": "Nothing has arrived for 7 s",
        "advice": "Look.",
        "value": 7.0,
        "limit": 5.0,
        "unit": "s",
    }
    return cast(Issue, base | fields)
