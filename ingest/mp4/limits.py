"""What bounds the index of one recording, and why there is none."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mp4Limits:
    frames: int = 4_000_000
    """Of all tracks: 14 hours of 30 pictures a second and AAC. Each costs some 70 bytes of memory while the head is
    made, and about 10 bytes of head."""
    tracks: int = 16
    """Of a kind."""
    configurations: int = 64
    """Of a track: an encoder that changes its settings begins another."""
    changes: int = 10_000
    """Of a track, from one of its configurations to another."""
    configuration_bytes: int = 64 * 1024
    """Of one: what an encoder sends has under 1 KiB."""


class Unplayable(Exception):  # noqa: N818 - an answer, not an error.
    """The recording can't be had as MP4. The text is a sentence for who wants it."""
