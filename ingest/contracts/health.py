"""Health checks by their codes, as people call what they look for: a check's limits, sentences and advice are in
`ingest.live.health`. Of an issue that has cleared the sentence is no longer true; its name is.
"""

from typing import Final

STREAM_CHECKS: Final = {
    "starving": "Nothing arrives",
    "bitrate_low": "Bitrate low",
    "bitrate_high": "Bitrate high",
    "bitrate_unstable": "Bitrate unstable",
    "no_keyframes": "No keyframes",
    "gop_long": "Keyframes too far apart",
    "gop_short": "Keyframes too close together",
    "fps_low": "Frame rate low",
    "drift": "Behind real time",
    "faster_than_realtime": "Faster than real time",
    "no_audio": "No audio",
    "no_video": "No video",
    "av_skew": "Audio and video apart",
    "ts_discontinuity": "Timestamps jump",
    "rtt_high": "Round trip long",
    "flapping": "Comes and goes",
    "recording_failed": "Recording fails",
    "slow_players": "Slow players",
}
"""What a stream is judged by, and what an override may name."""

NODE_CHECKS: Final = {
    "node_cpu": "Processor busy",
    "disk_free": "Disk full",
    "node_files": "Open files",
    "disk_hangs": "Disk does not answer",
    "caches_full": "No room for late players",
}

CHECK_NAMES: Final = STREAM_CHECKS | NODE_CHECKS
