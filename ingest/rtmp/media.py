"""What audio and video messages say of themselves, and how to write such messages. Pure, and not on the media path:
`ingest.live.media` tells frames from headers there, by the first bytes alone.

    message = read_video(payload)
    if message and not message.fault: ...

Messages with a codec id or sound format are `media_tags`; here are extended ones (Enhanced RTMP v2, "Enhanced Audio"
and "Enhanced Video"; v1 has a part of it):

    video   1 (1 bit) frame type (3) packet type (4)  [ModEx]*  [command (8)]  or  [multitrack]  FourCC  body
    audio   9 (4 bits)               packet type (4)  [ModEx]*                     [multitrack]  FourCC  body

    ModEx               size - 1 (8; 255: size - 1 in 16 more)  data  type (4)  next packet type (4)
    multitrack          type (4) packet type (4), then
    one track           FourCC  track (8)  body
    many tracks         FourCC  [track (8)  size (24)  body]*
    many codecs         [FourCC  track (8)  size (24)  body]*

CodedFrames of AVC, HEVC and VVC begin with a composition time (24 bits, signed); CodedFramesX are without.

What a peer sends is read as far as it makes sense, and `fault` says where that ends. Media is relayed as it came, so a
faulty message ends no connection: it is counted."""

from dataclasses import dataclass
from typing import Final

from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.rtmp.media_tags import (
    COMPOSITION_FOURCC,
    EX_AUDIO,
    KEYFRAMES,
    AudioPacket,
    FrameType,
    LegacyAudio,
    LegacyVideo,
    MultitrackType,
    VideoPacket,
    read_legacy_audio,
    read_legacy_video,
)
from ingest.rtmp.messages import MAX_U24

MAX_DATA_BYTES: Final = 65_536

Packets = type[VideoPacket] | type[AudioPacket]


@dataclass(frozen=True, slots=True)
class ModEx:
    """One extension. Type 0, the one that there is, is an offset of the timestamp: 24 bits, 0 to 999,999 ns."""

    type: int
    data: bytes
    """1 to 65,536 bytes."""


@dataclass(frozen=True, slots=True)
class Track:
    """What a message holds of one track."""

    fourcc: bytes
    """4 bytes; codecs that nobody knows included."""
    body: bytes = b""
    """The codec's own data, the composition time taken off."""
    track_id: int = 0
    """0 to 255; 0 where a message has no tracks."""
    composition_time_ms: int = 0
    """-8,388,608 to 8,388,607."""


@dataclass(frozen=True, slots=True)
class _Extended:
    packet_type: int
    """With tracks: of each of them, so never Multitrack. Reserved values are handed on as they are."""
    tracks: tuple[Track, ...] = ()
    multitrack: MultitrackType | None = None
    mod_ex: tuple[ModEx, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ExtendedAudio(_Extended):
    """`packet_type` is an `AudioPacket`, unless it is reserved."""

    @property
    def is_sequence_start(self) -> bool:
        return self.packet_type == AudioPacket.SEQUENCE_START


@dataclass(frozen=True, slots=True)
class ExtendedVideo(_Extended):
    """`packet_type` is a `VideoPacket`, unless it is reserved."""

    frame_type: int = FrameType.KEYFRAME
    """A `FrameType`, which says nothing where the packet type is Metadata."""
    command: int | None = None
    """Of command frames, which have no tracks."""

    @property
    def is_sequence_start(self) -> bool:
        return self.command is None and self.packet_type in (
            VideoPacket.SEQUENCE_START,
            VideoPacket.MPEG2TS_SEQUENCE_START,
        )

    @property
    def is_keyframe(self) -> bool:
        is_frame = self.packet_type in (VideoPacket.CODED_FRAMES, VideoPacket.CODED_FRAMES_X) and bool(self.tracks)
        return is_frame and self.frame_type in KEYFRAMES


class _Reader:
    """Reads one payload. Its attributes hold what was understood, `fault` why no more was."""

    def __init__(self, payload: bytes, limits: Limits, packets: Packets) -> None:
        self._payload = payload
        self._limits = limits
        self._multitrack_packet: int = packets.MULTITRACK
        self._mod_ex_packet: int = packets.MOD_EX
        self._at = 1
        self.packet_type = payload[0] & 15
        self.mod_ex: list[ModEx] = []
        self.multitrack: MultitrackType | None = None
        self.tracks: list[Track] = []
        self.command: int | None = None
        self.fault = ""

    def fields(self) -> tuple[int, tuple[Track, ...], MultitrackType | None, tuple[ModEx, ...], str]:
        return self.packet_type, tuple(self.tracks), self.multitrack, tuple(self.mod_ex), self.fault

    def extensions(self) -> bool:
        """Reads what stands before the packet type; False where that ends too early."""
        while self.packet_type == self._mod_ex_packet:
            if len(self.mod_ex) == self._limits.mod_ex_per_message:
                return self._fail(f"more than {self._limits.mod_ex_per_message} extensions")
            size = self._byte() + 1
            self._at += 1
            if size == 256:
                size = int.from_bytes(self._payload[self._at : self._at + 2], "big") + 1
                self._at += 2
            end = self._at + size
            if end >= len(self._payload):
                return self._fail("an extension is cut off")
            self.mod_ex.append(ModEx(self._payload[end] >> 4, self._payload[self._at : end]))
            self.packet_type, self._at = self._payload[end] & 15, end + 1
        return True

    def is_metadata(self) -> bool:
        """Metadata of tracks too: FFmpeg gives them the frame type of a command, which has but one byte."""
        rest = self._payload[self._at : self._at + 2]
        of_tracks = (
            self.packet_type == self._multitrack_packet and len(rest) == 2 and rest[0] & 15 == VideoPacket.METADATA
        )
        return self.packet_type == VideoPacket.METADATA or of_tracks

    def read_command(self) -> None:
        if self._at < len(self._payload):
            self.command = self._payload[self._at]
        else:
            self._fail("the command is cut off")

    def read_tracks(self, composed: int | None) -> None:
        """`composed` is the packet type whose bodies may begin with a composition time."""
        if self.packet_type != self._multitrack_packet:
            if fourcc := self._fourcc():
                self._track(fourcc, 0, len(self._payload), composed)
            return
        kind, self.packet_type = self._byte() >> 4, self._byte() & 15
        self._at += 1
        if self._at > len(self._payload):
            self._fail("the kind of multitrack is cut off")
        elif kind not in list(MultitrackType):
            self._fail("the kind of multitrack is unknown")
        elif self.packet_type in (self._multitrack_packet, self._mod_ex_packet):
            self._fail("a multitrack within a multitrack")
        else:
            self.multitrack = MultitrackType(kind)
            self._many(composed)

    def _many(self, composed: int | None) -> None:
        many_codecs = self.multitrack == MultitrackType.MANY_TRACKS_MANY_CODECS
        fourcc = b"" if many_codecs else self._fourcc()
        if not many_codecs and not fourcc:
            return
        if self.multitrack == MultitrackType.ONE_TRACK:
            if self._has(1):
                self._at += 1
                self._track(fourcc, self._payload[self._at - 1], len(self._payload), composed)
            return
        while self._at < len(self._payload):
            if len(self.tracks) == self._limits.tracks_per_message:
                self._fail(f"more than {self._limits.tracks_per_message} tracks")
                return
            if many_codecs:
                fourcc = self._fourcc()
            if self.fault or not self._has(4):
                return
            track_id = self._payload[self._at]
            size = int.from_bytes(self._payload[self._at + 1 : self._at + 4], "big")
            self._at += 4
            if not self._has(size) or not self._track(fourcc, track_id, self._at + size, composed):
                return
        if not self.tracks:
            self._fail("no track in a message of tracks")

    def _track(self, fourcc: bytes, track_id: int, end: int, composed: int | None) -> bool:
        composition_time_ms = 0
        if self.packet_type == composed and fourcc in COMPOSITION_FOURCC:
            if self._at + 3 > end:
                return self._fail("the composition time is cut off")
            composition_time_ms = int.from_bytes(self._payload[self._at : self._at + 3], "big", signed=True)
            self._at += 3
        self.tracks.append(Track(fourcc, self._payload[self._at : end], track_id, composition_time_ms))
        self._at = end
        return True

    def _byte(self) -> int:
        return self._payload[self._at] if self._at < len(self._payload) else 0

    def _fourcc(self) -> bytes:
        fourcc = self._payload[self._at : self._at + 4]
        self._at += 4
        if len(fourcc) == 4:
            return fourcc
        self._fail("the FourCC is cut off")
        return b""

    def _has(self, count: int) -> bool:
        return self._at + count <= len(self._payload) or self._fail("a track is cut off")

    def _fail(self, fault: str) -> bool:
        self.fault = fault
        return False


VideoMessage = LegacyVideo | ExtendedVideo
AudioMessage = LegacyAudio | ExtendedAudio


def read_video(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> VideoMessage | None:
    """A message of type 9; None for an empty one. Whatever it holds, nothing is raised."""
    if not payload:
        return None
    if not payload[0] & 0x80:
        return read_legacy_video(payload)
    reader = _Reader(payload, limits, VideoPacket)
    frame_type = payload[0] >> 4 & 7
    if reader.extensions():
        if frame_type == FrameType.COMMAND and not reader.is_metadata():
            reader.read_command()
        else:
            reader.read_tracks(VideoPacket.CODED_FRAMES)
    return ExtendedVideo(*reader.fields(), frame_type, reader.command)


def read_audio(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> AudioMessage | None:
    """A message of type 8; None for an empty one, which stands for silence. Whatever it holds, nothing is raised."""
    if not payload:
        return None
    if payload[0] >> 4 != EX_AUDIO:
        return read_legacy_audio(payload)
    reader = _Reader(payload, limits, AudioPacket)
    if reader.extensions():
        reader.read_tracks(None)
    return ExtendedAudio(*reader.fields())


def write_video(video: ExtendedVideo) -> bytes:
    """The payload. ValueError for what the layout can't say."""
    start = 0x80 | video.frame_type << 4
    if video.command is not None:
        return _header(video, start, VideoPacket, video.packet_type) + bytes((video.command,))
    return _write(video, start, VideoPacket, composed=video.packet_type == VideoPacket.CODED_FRAMES)


def write_audio(audio: ExtendedAudio) -> bytes:
    """The payload. ValueError for what the layout can't say."""
    return _write(audio, EX_AUDIO << 4, AudioPacket, composed=False)


def _write(message: _Extended, start: int, packets: Packets, *, composed: bool) -> bytes:
    bodies = [_body(track, composed=composed) for track in message.tracks]
    if message.multitrack is None:
        (track,) = message.tracks
        return _header(message, start, packets, message.packet_type) + track.fourcc + bodies[0]
    written = _header(message, start, packets, packets.MULTITRACK)
    written += bytes((message.multitrack << 4 | message.packet_type,))
    if message.multitrack == MultitrackType.ONE_TRACK:
        (track,) = message.tracks
        return written + track.fourcc + bytes((track.track_id,)) + bodies[0]
    if message.multitrack == MultitrackType.MANY_TRACKS:
        (fourcc,) = {track.fourcc for track in message.tracks}
        written += fourcc
    for track, body in zip(message.tracks, bodies, strict=True):
        if len(body) > MAX_U24:
            raise ValueError("a track among others has at most 16,777,215 bytes")
        own = track.fourcc if message.multitrack == MultitrackType.MANY_TRACKS_MANY_CODECS else b""
        written += own + bytes((track.track_id,)) + len(body).to_bytes(3, "big") + body
    return written


def _header(message: _Extended, start: int, packets: Packets, packet_type: int) -> bytes:
    """The first byte and the extensions, each of which names the packet type behind it."""
    types = [packets.MOD_EX] * len(message.mod_ex) + [packet_type]
    written = bytes((start | types[0],))
    for extension, next_type in zip(message.mod_ex, types[1:], strict=True):
        size = len(extension.data)
        if not 1 <= size <= MAX_DATA_BYTES:
            raise ValueError("the data of an extension have 1 to 65,536 bytes")
        written += bytes((size - 1,)) if size <= 255 else b"\xff" + (size - 1).to_bytes(2, "big")
        written += extension.data + bytes((extension.type << 4 | next_type,))
    return written


def _body(track: Track, *, composed: bool) -> bytes:
    if len(track.fourcc) != 4:
        raise ValueError("a FourCC has 4 bytes")
    if composed and track.fourcc in COMPOSITION_FOURCC:
        return track.composition_time_ms.to_bytes(3, "big", signed=True) + track.body
    return track.body
