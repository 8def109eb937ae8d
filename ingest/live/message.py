"""A message of a live stream: serialised once, shared by all of its players, and how it stands in the stream's log.

Video frames that no other frame refers to are disposable: a slow player can go without them. Extended messages are
those that not every player takes: of several tracks, or with extensions (Enhanced RTMP v2, `capsEx`).

In a log (see `stream_log`):

message   basic header (8 bits) timestamp (24) length (24) type (8) stream id (32, little endian) payload
record    kind and flags (8 bits) - (24) timestamp (32) arrived (64, float) where it begins (32) payload size (32)

Told by the frame type of FLV (10.1, annex E.4.3.1: 3, of H.263), or by the coded data of
- H.264 (7.4.1): `nal_ref_idc` is 0 in all NAL units
- H.265 (7.4.2.2): all slices are of sub-layer non-reference pictures
- VP9 (bitstream specification 0.6, section 7.2): `refresh_frame_flags` is 0
The other codecs don't tell it in their first bytes. Whatever a peer sends gives an answer, False where it is unclear.

Who did not say that it understands one of the two is sent them without that: the stream's main track alone, as a
message of one track has it, or no extensions. Each such form is made once, when the first player needs it."""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from ingest.live.media import audio_tag, video_tag
from ingest.rtmp.capabilities import CapsEx
from ingest.rtmp.chunk_writer import CSID_AUDIO, CSID_DATA, CSID_VIDEO, encode_message
from ingest.rtmp.media import ExtendedAudio, ExtendedVideo, read_audio, read_video, write_audio, write_video
from ingest.rtmp.media_tags import FrameType, VideoPacket
from ingest.rtmp.messages import Message, MessageType

MOST_UNITS: Final = 64
"""NAL units of one frame that are looked at; with more of them it counts as needed."""
LENGTH_BYTES: Final = 4
"""Before each NAL unit. Other lengths are possible and not used; their units would not end where the message does."""

LEGACY_AVC, LEGACY_HEVC = 7, 12


def is_disposable(payload: bytes) -> bool:
    """Of a whole video message that is an inter frame."""
    if len(payload) < LENGTH_BYTES + 2:
        return False
    first = payload[0]
    if first >> 4 & 7 == FrameType.DISPOSABLE:
        return True
    if first < 0x80:
        legacy = LEGACY.get(first & 15)
        return legacy is not None and payload[1] == VideoPacket.CODED_FRAMES and legacy(payload, 5)
    extended = EXTENDED.get(payload[1:5])
    if extended is None or first & 15 not in (VideoPacket.CODED_FRAMES, VideoPacket.CODED_FRAMES_X):
        return False
    check, composition_bytes = extended
    return check(payload, 5 + (composition_bytes if first & 15 == VideoPacket.CODED_FRAMES else 0))


def _units(payload: bytes, at: int, is_needed: Callable[[int], bool]) -> bool:
    """Whether none of the NAL units, by their first byte, is needed; and the message is made of such units."""
    end = len(payload)
    for _ in range(MOST_UNITS):
        at += LENGTH_BYTES
        if at >= end or is_needed(payload[at]):
            return False
        at += int.from_bytes(payload[at - LENGTH_BYTES : at], "big")
        if at == end:
            return True
    return False


def _avc(payload: bytes, at: int) -> bool:
    return _units(payload, at, lambda first: first & 0x60 != 0)


def _hevc(payload: bytes, at: int) -> bool:
    """Types 0, 2, ... 14 are such pictures; 35 to 40 are delimiters and messages beside them."""
    return _units(payload, at, lambda first: (first >> 1 & 63) not in HEVC_DISPOSABLE)


HEVC_DISPOSABLE: Final = frozenset((*range(0, 15, 2), 35, 38, 39, 40))


def _vp9(payload: bytes, at: int) -> bool:
    """A frame alone (a superframe holds hidden ones, others refer to these) whose header refreshes nothing."""
    if at + 4 > len(payload) or payload[-1] >> 5 == 0b110:
        return False
    bits = int.from_bytes(payload[at : at + 4], "big")
    position = 32

    def read(count: int) -> int:
        nonlocal position
        position -= count
        return bits >> position & (1 << count) - 1

    marker, low, high = read(2), read(1), read(1)
    if marker != 2 or (low and high and read(1)):
        return False
    shows_existing, is_inter, is_shown, is_resilient = read(1), read(1), read(1), read(1)
    if shows_existing or not is_inter or not is_shown:
        return False
    if not is_resilient:
        read(2)  # reset_frame_context
    return read(8) == 0


Check = Callable[[bytes, int], bool]

LEGACY: Final[dict[int, Check]] = {LEGACY_AVC: _avc, LEGACY_HEVC: _hevc}
EXTENDED: Final[dict[bytes, tuple[Check, int]]] = {b"avc1": (_avc, 3), b"hvc1": (_hevc, 3), b"vp09": (_vp9, 0)}
"""By FourCC, with the bytes of the composition time that its CodedFrames begin with."""

OUT_CHUNK_SIZE: Final = 60000
"""Bytes. A connection that is to play must have announced it (Set Chunk Size) before it is sent shared bytes."""

MAX_OTHERS: Final = 3
"""Message stream ids beside the first one for which the bytes are kept. Nearly every player uses 1."""

Kind = Literal["audio", "video", "data"]

WIRE: Final = {
    "audio": (MessageType.AUDIO, CSID_AUDIO),
    "video": (MessageType.VIDEO, CSID_VIDEO),
    "data": (MessageType.DATA_AMF0, CSID_DATA),
}

METADATA_AT: Final = 0
"""The time of all onMetaData: they say what the stream is, not what happens at a time. FFmpeg takes those of another
time for a track of subtitles, and other servers send them so."""
METADATA_SLOT: Final = 0
"""Theirs among the data that are kept."""


class SharedMessage:
    """One media or data message. Immutable but for the bytes that it keeps."""

    __slots__ = (
        "_disposable",
        "_others",
        "arrived",
        "is_frame",
        "is_header",
        "is_keyframe",
        "is_video",
        "kind",
        "payload",
        "size",
        "slot",
        "tag",
        "timestamp",
        "wire",
        "wire_id",
    )

    def __init__(
        self,
        kind: Kind,
        timestamp: int,
        payload: bytes,
        arrived: float,
        is_frame: bool = False,
        is_keyframe: bool = False,
        is_header: bool = False,
        slot: int = 0,
    ) -> None:
        self.kind: Kind = kind
        self.timestamp = timestamp
        """On the players' timeline: milliseconds, 32 bits."""
        self.payload = payload
        self.size = len(payload)
        self.arrived = arrived
        """When it came, in seconds (monotonic). Ages are counted by it, as timestamps may be wrong."""
        self.is_video = kind == "video"
        self.is_frame = is_frame
        """Coded media, not a header, command or data."""
        self.is_keyframe = is_keyframe
        """Begins a group of pictures."""
        self.is_header = is_header
        """A sequence header or metadata: never dropped, but for a newer one of its kind and slot."""
        self.slot = slot
        self.wire_id = -1
        self.wire = b""
        """What `encoded` gives for `wire_id`, once it was asked for: saves nearly every player a call."""
        self.tag: bytes | None = None
        """As a tag of an FLV file, with its size behind it, once somebody has made it."""
        self._others: dict[int, bytes] | None = None
        self._disposable: bool | None = None

    @property
    def is_metadata(self) -> bool:
        """onMetaData: they are of no time."""
        return self.kind == "data" and self.is_header and self.slot == METADATA_SLOT

    @property
    def variants(self) -> int:
        return 1

    @property
    def is_disposable(self) -> bool:
        """A frame that no other refers to. Found out once, and only if some player is slow."""
        found = self._disposable
        if found is None:
            found = self.is_video and self.is_frame and not self.is_keyframe and is_disposable(self.payload)
            self._disposable = found
        return found

    def encoded(self, stream_id: int) -> bytes:
        """The message in chunks under a type 0 header, on this message stream."""
        if stream_id == self.wire_id:
            return self.wire
        others = self._others
        if others is not None and stream_id in others:
            return others[stream_id]
        type_id, chunk_stream_id = WIRE[self.kind]
        message = Message(type_id, self.timestamp, stream_id, self.payload)
        encoded = encode_message(message, chunk_stream_id=chunk_stream_id, chunk_size=OUT_CHUNK_SIZE)
        if self.wire_id < 0:
            self.wire_id, self.wire = stream_id, encoded
        elif others is None:
            self._others = {stream_id: encoded}
        elif len(others) < MAX_OTHERS:
            others[stream_id] = encoded
        return encoded

    def at(self, timestamp: int) -> "SharedMessage":
        return self if self.is_metadata else self._copy(timestamp, self.payload, self.slot)

    def marked(self, mark: bytes) -> "SharedMessage":
        """With this before its payload."""
        return self._copy(self.timestamp, mark + self.payload, self.slot)

    def _copy(self, timestamp: int, payload: bytes, slot: int) -> "SharedMessage":
        flags = self.is_frame, self.is_keyframe, self.is_header
        return SharedMessage(self.kind, timestamp, payload, self.arrived, *flags, slot)


ALL_EXTENSIONS: Final = int(CapsEx.MULTITRACK | CapsEx.MOD_EX)
"""What a message may need."""


class ExtendedMessage(SharedMessage):
    """`needs`: flags of CapsEx, which a player has to have said."""

    __slots__ = ("_plain", "_track", "needs")

    def __init__(
        self,
        kind: Kind,
        timestamp: int,
        payload: bytes,
        arrived: float,
        is_frame: bool = False,
        is_keyframe: bool = False,
        is_header: bool = False,
        slot: int = 0,
        *,
        needs: int,
    ) -> None:
        super().__init__(kind, timestamp, payload, arrived, is_frame, is_keyframe, is_header, slot)
        self.needs = needs
        self._plain: dict[int, SharedMessage | None] = {}
        self._track = -1

    @property
    def variants(self) -> int:
        return 1 << self.needs.bit_count()

    def plain(self, lacking: int, track: int) -> SharedMessage | None:
        """For all who lack these of the flags; `track`: the main one. None: there is nothing of it for them."""
        if not lacking:
            return self
        if track != self._track:
            self._plain, self._track = {}, track
        if lacking not in self._plain:
            payload = plain_payload(self.kind, self.payload, lacking, track)
            slot = self.slot & PACKET_TYPE if lacking & CapsEx.MULTITRACK else self.slot
            self._plain[lacking] = None if payload is None else self._copy(self.timestamp, payload, slot)
        return self._plain[lacking]

    def at(self, timestamp: int) -> "SharedMessage":
        flags = self.is_frame, self.is_keyframe, self.is_header
        return ExtendedMessage(self.kind, timestamp, self.payload, self.arrived, *flags, self.slot, needs=self.needs)


PACKET_TYPE: Final = 15
"""Of a header's slot: what is left without its track (`ingest.live.media`)."""


def plain_payload(kind: Kind, payload: bytes, lacking: int, track: int) -> bytes | None:
    """An extended message without what is lacking: as one of the track alone, or without extensions. None: the track
    isn't there, or the message can't be read.
    """
    message = read_video(payload) if kind == "video" else read_audio(payload)
    if not isinstance(message, ExtendedVideo | ExtendedAudio):
        return None
    if lacking & CapsEx.MULTITRACK:
        alone = tuple(each for each in message.tracks if each.track_id == track)[:1]
        message = replace(message, tracks=alone, multitrack=None)
    if lacking & CapsEx.MOD_EX:
        message = replace(message, mod_ex=())
    if isinstance(message, ExtendedAudio):
        return write_audio(message) if message.tracks else None
    return write_video(message) if message.tracks or message.command is not None else None


def message_of(
    kind: Kind,
    timestamp: int,
    payload: bytes,
    arrived: float,
    is_frame: bool = False,
    is_keyframe: bool = False,
    is_header: bool = False,
    slot: int = 0,
) -> SharedMessage:
    needs = 0 if kind == "data" else (video_tag if kind == "video" else audio_tag)(payload).needs
    if needs:
        return ExtendedMessage(kind, timestamp, payload, arrived, is_frame, is_keyframe, is_header, slot, needs=needs)
    return SharedMessage(kind, timestamp, payload, arrived, is_frame, is_keyframe, is_header, slot)


def without_unsupported(messages: Iterable[SharedMessage], takes: int, main: Mapping[Kind, int]) -> list[SharedMessage]:
    """What a player is sent of them that takes no more than these flags. `main`: the main tracks."""
    found = (
        message.plain(message.needs & ~takes, main[message.kind]) if isinstance(message, ExtendedMessage) else message
        for message in messages
    )
    return [message for message in found if message is not None]


STREAM_ID: Final = 1

KINDS: Final[tuple[Kind, ...]] = ("data", "audio", "video")
NUMBERS: Final[dict[Kind, int]] = {kind: number for number, kind in enumerate(KINDS)}
KIND, FRAME, KEYFRAME, HEADER = 3, 4, 8, 16
"""Of a record's first byte: the kind's bits, and flags."""

DATA, AUDIO, VIDEO = NUMBERS["data"], NUMBERS["audio"], NUMBERS["video"]

MESSAGE: Final = struct.Struct(">BIHBI")
RECORD: Final = struct.Struct("<B3xIdII")
HEADER_BYTES: Final = MESSAGE.size
RECORD_BYTES: Final = RECORD.size
STREAM_ID_AT: Final = 8
STREAM_FIELD: Final = int.from_bytes(STREAM_ID.to_bytes(4, "little"), "big")
TYPES: Final = tuple((WIRE[kind][1], int(WIRE[kind][0])) for kind in KINDS)

TIMESTAMP: Final = struct.Struct(">I")
"""An extended one, behind the header; each chunk repeats it."""


class Span(NamedTuple):
    """A run of messages: records `first` to `stop`, bytes `start` to `end`."""

    first: int
    stop: int
    start: int
    end: int


@dataclass(eq=False, slots=True)
class Place:
    """Up to where some of the readers have been given the log, while there are such readers."""

    is_read: bool = False
    record: int = 0
    at: int = 0
