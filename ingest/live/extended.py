"""Messages that not every player takes: of several tracks, or with extensions (Enhanced RTMP v2, `capsEx`).

Who did not say that it understands them is sent their plain form: the stream's main track alone, without extensions, as
a message of one track has it. That is made once, when the first such player needs it.
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

    __slots__ = ("_plain", "needs")

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
        self._plain: tuple[int, SharedMessage | None] | None = None

    @property
    def variants(self) -> int:
        return 1 << self.needs.bit_count()

    def plain(self, track: int) -> SharedMessage | None:
        """The track alone, for all who take no more; None: there is nothing of it in the message."""
        if self._plain is None or self._plain[0] != track:
            payload = plain_payload(self.kind, self.payload, track)
            self._plain = (track, None if payload is None else self._with(payload))
        return self._plain[1]

    def _with(self, payload: bytes) -> SharedMessage:
        return SharedMessage(
            self.kind,
            self.timestamp,
            payload,
            self.arrived,
            is_frame=self.is_frame,
            is_keyframe=self.is_keyframe,
            is_header=self.is_header,
            slot=self.slot & PACKET_TYPE,
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


def plain_payload(kind: Kind, payload: bytes, track: int) -> bytes | None:
    """The track of an extended message as a message of its own, without extensions; None: it isn't there."""
    message = read_video(payload) if kind == "video" else read_audio(payload)
    if isinstance(message, ExtendedVideo):
        if message.command is not None:
            return write_video(replace(message, mod_ex=()))
        tracks = tuple(each for each in message.tracks if each.track_id == track)[:1]
        return write_video(replace(message, tracks=tracks, multitrack=None, mod_ex=())) if tracks else None
    if isinstance(message, ExtendedAudio):
        tracks = tuple(each for each in message.tracks if each.track_id == track)[:1]
        return write_audio(replace(message, tracks=tracks, multitrack=None, mod_ex=())) if tracks else None
    return None


def message_of(
    kind: Kind, timestamp: int, payload: bytes, arrived: float, is_frame: bool, is_keyframe: bool
) -> SharedMessage:
    """A message that is no header, of a stream that has extended ones."""
    needs = 0 if kind == "data" else (video_tag if kind == "video" else audio_tag)(payload).needs
    if needs:
        return ExtendedMessage(kind, timestamp, payload, arrived, is_frame, is_keyframe, needs=needs)
    return SharedMessage(kind, timestamp, payload, arrived, is_frame, is_keyframe)


def fitting(messages: Iterable[SharedMessage], takes: int, main: Mapping[Kind, int]) -> list[SharedMessage]:
    """What a player is sent of them that takes no more than these flags. `main`: the main tracks."""
    found = []
    for message in messages:
        fit: SharedMessage | None = message
        if isinstance(message, ExtendedMessage) and message.needs & ~takes:
            fit = message.plain(main[message.kind])
        if fit is not None:
            found.append(fit)
    return found
