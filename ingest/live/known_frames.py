"""Which frames are like those before, told by their first bytes alone: the media path's shortest way.

Where a message begins as one did that was a plain frame of the main track, it is one too: with a codec id the first two
bytes tell all of it, with a FourCC the first five (see `ingest.live.media`). So what was found out about one message
need not be found out again, until something changes.
"""

from typing import Final

FOURCC_BYTES: Final = 5
"""Packet type and FourCC (Enhanced RTMP v2, "Enhanced Audio" and "Enhanced Video")."""
EX_VIDEO: Final = 0x80
"""From here on the first byte of a video message tells of a FourCC; that of an audio message if its format is this:"""
EX_AUDIO: Final = 9


class KnownFrames:
    """Of one publisher's main track of a kind."""

    __slots__ = ("_by_codec", "_by_fourcc", "_is_video")

    def __init__(self, *, is_video: bool) -> None:
        self._is_video = is_video
        self._by_codec: set[int] = set()
        self._by_fourcc: set[bytes] = set()

    def add(self, payload: bytes) -> None:
        """It was one."""
        if len(payload) < FOURCC_BYTES:
            return
        first = payload[0]
        if first >= EX_VIDEO if self._is_video else first >> 4 == EX_AUDIO:
            self._by_fourcc.add(payload[:FOURCC_BYTES])
        else:
            self._by_codec.add(first << 8 | payload[1])

    def has(self, data: memoryview, at: int) -> bool:
        """Whether the message that begins here, of some bytes at least (`rtmp.chunks.run_reader`), is another."""
        if data[at] << 8 | data[at + 1] in self._by_codec:
            return True
        return bool(self._by_fourcc) and data[at : at + FOURCC_BYTES].tobytes() in self._by_fourcc

    def clear(self) -> None:
        """Something has changed: a header, the tracks, or what is known of the stream."""
        self._by_codec.clear()
        self._by_fourcc.clear()
