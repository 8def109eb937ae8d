"""Messages that not every player takes: of several tracks, or with extensions (Enhanced RTMP v2, `capsEx`).

Who did not say that it understands one of the two is sent them without that: the stream's main track alone, as a
message of one track has it, or no extensions. Each such form is made once, when the first player needs it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from ingest.live.media import audio_tag, video_tag
from ingest.live.shared import Kind, SharedMessage
from ingest.rtmp.capabilities import CapsEx
from ingest.rtmp.media import ExtendedAudio, ExtendedVideo, read_audio, read_video, write_audio, write_video

EVERYTHING: Final = int(CapsEx.MULTITRACK | CapsEx.MOD_EX)
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
        """Of which they are."""

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
            self._plain[lacking] = None if payload is None else self._with(payload, lacking)
        return self._plain[lacking]

    def _with(self, payload: bytes, lacking: int) -> SharedMessage:
        return SharedMessage(
            self.kind,
            self.timestamp,
            payload,
            self.arrived,
            is_frame=self.is_frame,
            is_keyframe=self.is_keyframe,
            is_header=self.is_header,
            slot=self.slot & PACKET_TYPE if lacking & CapsEx.MULTITRACK else self.slot,
        )

    def at(self, timestamp: int) -> "ExtendedMessage":
        return ExtendedMessage(
            self.kind,
            timestamp,
            self.payload,
            self.arrived,
            is_frame=self.is_frame,
            is_keyframe=self.is_keyframe,
            is_header=self.is_header,
            slot=self.slot,
            needs=self.needs,
        )


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
    """A message of a stream that has extended ones."""
    needs = 0 if kind == "data" else (video_tag if kind == "video" else audio_tag)(payload).needs
    if needs:
        return ExtendedMessage(kind, timestamp, payload, arrived, is_frame, is_keyframe, is_header, slot, needs=needs)
    return SharedMessage(kind, timestamp, payload, arrived, is_frame, is_keyframe, is_header, slot)


def fitting(messages: Iterable[SharedMessage], takes: int, main: Mapping[Kind, int]) -> list[SharedMessage]:
    """What a player is sent of them that takes no more than these flags. `main`: the main tracks."""
    found = (
        message.plain(message.needs & ~takes, main[message.kind]) if isinstance(message, ExtendedMessage) else message
        for message in messages
    )
    return [message for message in found if message is not None]
