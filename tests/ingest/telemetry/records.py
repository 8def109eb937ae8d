"""Records for tests: one of each, with overrides."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ingest.contracts import EventRecord, Sample

NOON = int(datetime(2026, 3, 29, 12, tzinfo=UTC).timestamp() * 1_000_000)

SESSION: Any = {"session": "6ba7b810", "sequence": 0, "at_us": NOON, "node": "node-a", "app": "live", "name": "demo"}
SESSION |= {"stream": 1, "key": None}

RECEIVED: Any = {"elapsed_ms": 1000, "video_bytes": 250_000, "audio_bytes": 16_000, "data_bytes": 0}
RECEIVED |= {"wire_bytes": 270_000, "video_kbps": 2000.0, "audio_kbps": 128.0, "wire_kbps": 2160.0}
FRAMES: Any = {"video_frames": 30, "audio_frames": 43, "keyframes": 1, "fps": 30.0, "fps_media": None}
FRAMES |= {"keyframe_interval": 2.0, "keyframe_interval_max": 2.0, "open_gop_age": 0.5}
TIMES: Any = {"drift": None, "drift_dev": None, "av_skew": 3.0, "ts_gap": 0, "ts_regress": 0, "missing_frames_est": 0}
TIMES |= {"media_faults": 0, "idle_ms": 10, "rtt_ms": None, "retrans": None}
PLAYED: Any = {"players": 2, "viewers": 1, "out_bytes": 500_000, "out_kbps": 4000.0, "slow_players": 0}
PLAYED |= {"dropped_frames": 0}
ENCODER: Any = {"health": "good", "encoder": "FMLE/3.0 (compatible; FMSc/1.0)", "target_kbps": None}
SAMPLE = Sample(**SESSION, **RECEIVED, **FRAMES, **TIMES, **PLAYED, **ENCODER)

STARTED: Any = {"kind": "session.started", "session_kind": "publish", "level": "status"}
STARTED |= {"code": "NetStream.Publish.Start", "reason": "", "encoder": "FMLE/3.0", "address_hash": "ab12"}
EVENT = EventRecord(**SESSION, **STARTED, bytes_in=0, bytes_out=0, detail="{}")


def sample(sequence: int, **fields: Any) -> Sample:
    return replace(SAMPLE, sequence=sequence, **fields)


def event(sequence: int, **fields: Any) -> EventRecord:
    return replace(EVENT, sequence=sequence, **fields)
