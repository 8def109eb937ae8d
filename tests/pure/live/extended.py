"""Messages of several tracks and with extensions, and what players are sent of them by what they understand."""

from dataclasses import replace

from ingest.rtmp.capabilities import CapsEx
from ingest.rtmp.media import ExtendedVideo, ModEx, Track, write_video
from ingest.rtmp.media_tags import FrameType, MultitrackType, VideoPacket

MULTITRACK, MOD_EX = int(CapsEx.MULTITRACK), int(CapsEx.MOD_EX)
NANO_OFFSET = (ModEx(0, (500).to_bytes(3, "big")),)
BOTH = MULTITRACK | MOD_EX
ONE, MANY, CODECS = MultitrackType.ONE_TRACK, MultitrackType.MANY_TRACKS, MultitrackType.MANY_TRACKS_MANY_CODECS


def header(track: int = 0) -> ExtendedVideo:
    return ExtendedVideo(VideoPacket.SEQUENCE_START, (Track(b"av01", b"header %d" % track, track),))


def picture(number: int, track: int = 0, *, key: bool = False) -> ExtendedVideo:
    frame_type = FrameType.KEYFRAME if key else FrameType.INTER
    return ExtendedVideo(
        VideoPacket.CODED_FRAMES, (Track(b"av01", b"picture %d" % number, track),), frame_type=frame_type
    )


def together(kind: MultitrackType, *messages: ExtendedVideo) -> ExtendedVideo:
    tracks = tuple(track for message in messages for track in message.tracks)
    return replace(messages[0], tracks=tracks, multitrack=kind)


def delayed(message: ExtendedVideo) -> ExtendedVideo:
    return replace(message, mod_ex=NANO_OFFSET)


SENT: list[tuple[ExtendedVideo, int, dict[int, ExtendedVideo | None]]] = [
    (delayed(header()), MOD_EX, {MOD_EX: header()}),
    (together(ONE, header(1)), MULTITRACK, {MULTITRACK: None}),
    (picture(1, key=True), 0, {}),
    (together(ONE, picture(2, 1)), MULTITRACK, {MULTITRACK: None}),
    (together(MANY, picture(3), picture(4, 1)), MULTITRACK, {MULTITRACK: picture(3)}),
    (delayed(picture(5)), MOD_EX, {MOD_EX: picture(5)}),
    (
        delayed(together(CODECS, picture(6), picture(7, 1))),
        BOTH,
        {MULTITRACK: delayed(picture(6)), MOD_EX: together(CODECS, picture(6), picture(7, 1)), BOTH: picture(6)},
    ),
    (delayed(together(ONE, picture(8, 1))), BOTH, {MULTITRACK: None, MOD_EX: together(ONE, picture(8, 1)), BOTH: None}),
    (picture(9), 0, {}),
]
"""Messages, what they need, and what a player is sent that does not have that, or a part of it."""


def expected(takes: int) -> list[bytes]:
    fit = (plain.get(needs & ~takes, message) for message, needs, plain in SENT)
    return [write_video(message) for message in fit if message is not None]
