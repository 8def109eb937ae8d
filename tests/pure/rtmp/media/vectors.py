"""Audio and video messages as data: name, what is read, bytes. They serve the readers, the writers and cut messages."""

from ingest.rtmp.media import ExtendedAudio, ExtendedVideo, ModEx, Track
from ingest.rtmp.media_tags import AudioPacket, FrameType, LegacyAudio, LegacyVideo, MultitrackType, VideoPacket
from tests.pure.rtmp.wire import h

ONE, MANY, CODECS = MultitrackType.ONE_TRACK, MultitrackType.MANY_TRACKS, MultitrackType.MANY_TRACKS_MANY_CODECS
KEY, INTER, DISPOSABLE = FrameType.KEYFRAME, FrameType.INTER, FrameType.DISPOSABLE
V, A = VideoPacket, AudioPacket


VIDEO: list[tuple[str, LegacyVideo | ExtendedVideo, bytes]] = [
    ("AVC sequence header", LegacyVideo(KEY, 7, 0, 0, None, h("0164001f")), h("17 00 000000 0164001f")),
    ("AVC key frame", LegacyVideo(KEY, 7, 1, 133, None, h("65")), h("17 01 000085 65")),
    ("AVC frame shown before its time", LegacyVideo(INTER, 7, 1, -1, None, h("41")), h("27 01 ffffff 41")),
    ("AVC end of sequence", LegacyVideo(KEY, 7, 2), h("17 02 000000")),
    ("HEVC by the id that encoders took", LegacyVideo(KEY, 12, 0, 0, None, h("01")), h("1c 00 000000 01")),
    ("Sorenson H.263", LegacyVideo(DISPOSABLE, 2, body=h("000084")), h("32 000084")),
    ("Screen video", LegacyVideo(KEY, 3, body=h("1140")), h("13 1140")),
    ("generated key frame", LegacyVideo(FrameType.GENERATED_KEYFRAME, 2, body=h("84")), h("42 84")),
    ("VP6", LegacyVideo(INTER, 4, body=h("00")), h("24 00")),
    ("VP6 with alpha", LegacyVideo(KEY, 5, body=h("00 000001")), h("15 00 000001")),
    ("Screen video 2", LegacyVideo(KEY, 6, body=h("1140")), h("16 1140")),
    ("start of seeking", LegacyVideo(5, 7, command=0), h("57 00")),
    ("end of seeking", LegacyVideo(5, 2, command=1), h("52 01")),
    ("HEVC header", ExtendedVideo(V.SEQUENCE_START, (Track(b"hvc1", h("01")),)), h("90 68766331 01")),
    ("HEVC key frame", ExtendedVideo(V.CODED_FRAMES, (Track(b"hvc1", h("26"), 0, 133),)), h("91 68766331 000085 26")),
    (
        "AVC frame, the earliest composition time",
        ExtendedVideo(V.CODED_FRAMES, (Track(b"avc1", b"", 0, -(2**23)),), frame_type=INTER),
        h("a1 61766331 800000"),
    ),
    (
        "VVC frame, the latest composition time",
        ExtendedVideo(V.CODED_FRAMES, (Track(b"vvc1", h("00"), 0, 2**23 - 1),), frame_type=INTER),
        h("a1 76766331 7fffff 00"),
    ),
    (
        "HEVC frame without a composition time",
        ExtendedVideo(V.CODED_FRAMES_X, (Track(b"hvc1", h("02")),), frame_type=INTER),
        h("a3 68766331 02"),
    ),
    ("AV1 frames have no composition time", ExtendedVideo(V.CODED_FRAMES, (Track(b"av01", h("1200")),)),
     h("91 61763031 1200")),
    ("AV1 of MPEG-2 TS", ExtendedVideo(V.MPEG2TS_SEQUENCE_START, (Track(b"av01", h("8004")),)), h("95 61763031 8004")),
    ("VP8 frame", ExtendedVideo(V.CODED_FRAMES, (Track(b"vp08", h("10")),)), h("91 76703038 10")),
    ("end of sequence", ExtendedVideo(V.SEQUENCE_END, (Track(b"vp09"),)), h("92 76703039")),
    ("metadata, whose frame type is ignored", ExtendedVideo(V.METADATA, (Track(b"hvc1", h("02")),), frame_type=5),
     h("d4 68766331 02")),
    ("command frame", ExtendedVideo(V.SEQUENCE_START, command=1, frame_type=5), h("d0 01")),
    ("a codec that nobody knows", ExtendedVideo(V.CODED_FRAMES, (Track(b"zzzz", h("00")),)), h("91 7a7a7a7a 00")),
    ("a packet type that is reserved", ExtendedVideo(8, (Track(b"hvc1", h("00")),)), h("98 68766331 00")),
    (
        "an offset of 1 ns",
        ExtendedVideo(V.CODED_FRAMES_X, (Track(b"avc1", h("65")),), mod_ex=(ModEx(0, h("000001")),)),
        h("97 02 000001 03 61766331 65"),
    ),
    (
        "two extensions, one of 256 bytes",
        ExtendedVideo(
            V.CODED_FRAMES_X,
            (Track(b"hvc1"),),
            mod_ex=(ModEx(15, b"\0" * 256), ModEx(0, h("0f423f"))),
            frame_type=INTER,
        ),
        h("a7 ff00ff" + "00" * 256 + "f7 02 0f423f 03 68766331"),
    ),
    (
        "the longest extension that has a size of one byte",
        ExtendedVideo(V.SEQUENCE_END, (Track(b"hvc1"),), mod_ex=(ModEx(1, b"\1" * 255),)),
        h("97 fe" + "01" * 255 + "12 68766331"),
    ),
    ("one track", ExtendedVideo(V.SEQUENCE_START, (Track(b"avc1", h("0164"), 1),), ONE), h("96 00 61766331 01 0164")),
    (
        "many tracks of one codec",
        ExtendedVideo(
            V.CODED_FRAMES,
            (Track(b"avc1", h("65"), 0, 1), Track(b"avc1", b"", 255, -1), Track(b"avc1", h("6566"), 2)),
            MANY,
        ),
        h("96 11 61766331 00 000004 000001 65 ff 000003 ffffff 02 000005 000000 6566"),
    ),
    (
        "many tracks of many codecs",
        ExtendedVideo(V.CODED_FRAMES, (Track(b"hvc1", h("26"), 0, 5), Track(b"av01", h("1200"), 1)), CODECS),
        h("96 21 68766331 00 000004 000005 26 61763031 01 000002 1200"),
    ),
    (
        "an offset for many tracks",
        ExtendedVideo(V.SEQUENCE_END, (Track(b"vp09", b"", 3),), MANY, (ModEx(0, h("000064")),), frame_type=INTER),
        h("a7 02 000064 06 12 76703039 03 000000"),
    ),
    (
        "metadata of one track",
        ExtendedVideo(V.METADATA, (Track(b"hvc1", h("05"), 4),), ONE, frame_type=5),
        h("d6 04 68766331 04 05"),
    ),
]  # fmt: skip

AUDIO: list[tuple[str, LegacyAudio | ExtendedAudio, bytes]] = [
    ("AAC header", LegacyAudio(10, packet_type=0, body=h("1190")), h("af 00 1190")),
    ("AAC frame", LegacyAudio(10, packet_type=1, body=h("21")), h("af 01 21")),
    ("MP3", LegacyAudio(2, 3, True, False, body=h("fffb")), h("2e fffb")),
    ("MP3 of 8 kHz", LegacyAudio(14, 0, True, False, body=h("ff")), h("e2 ff")),
    ("ADPCM", LegacyAudio(1, 1, True, False, body=h("80")), h("16 80")),
    ("PCM, little-endian", LegacyAudio(3, 3, True, True, body=h("0080")), h("3f 0080")),
    ("Nellymoser of 16 kHz", LegacyAudio(4, 0, True, False, body=h("80")), h("42 80")),
    ("Nellymoser of 8 kHz", LegacyAudio(5, 0, True, False, body=h("80")), h("52 80")),
    ("Nellymoser", LegacyAudio(6, 2, True, False, body=h("80")), h("6a 80")),
    ("G.711, A-law", LegacyAudio(7, 0, True, False, body=h("d5")), h("72 d5")),
    ("G.711, mu-law", LegacyAudio(8, 0, True, False, body=h("ff")), h("82 ff")),
    ("sound of a device", LegacyAudio(15, 0, False, False, body=h("00")), h("f0 00")),
    ("8 bits", LegacyAudio(0, 1, False, True, body=h("80")), h("05 80")),
    ("Speex", LegacyAudio(11, 0, True, False), h("b2")),
    ("Opus header", ExtendedAudio(A.SEQUENCE_START, (Track(b"Opus", b"OpusHead"),)), b"\x90OpusOpusHead"),
    ("AC-3 header, which is empty", ExtendedAudio(A.SEQUENCE_START, (Track(b"ac-3"),)), b"\x90ac-3"),
    ("E-AC-3 frame", ExtendedAudio(A.CODED_FRAMES, (Track(b"ec-3", h("0b77")),)), h("91 65632d33 0b77")),
    ("end of FLAC", ExtendedAudio(A.SEQUENCE_END, (Track(b"fLaC"),)), h("92 664c6143")),
    ("channels of MP3", ExtendedAudio(A.MULTICHANNEL_CONFIG, (Track(b".mp3", h("0002")),)), h("94 2e6d7033 0002")),
    ("a packet type that is reserved", ExtendedAudio(3, (Track(b"mp4a", h("00")),)), h("93 6d703461 00")),
    (
        "an offset of 999,999 ns",
        ExtendedAudio(A.CODED_FRAMES, (Track(b"mp4a", h("21")),), mod_ex=(ModEx(0, h("0f423f")),)),
        h("97 02 0f423f 01 6d703461 21"),
    ),
    ("one track", ExtendedAudio(A.CODED_FRAMES, (Track(b"mp4a", h("21"), 1),), ONE), h("95 01 6d703461 01 21")),
    (
        "many tracks",
        ExtendedAudio(A.CODED_FRAMES, (Track(b"Opus", h("fc"), 0), Track(b"Opus", b"", 1)), MANY),
        h("95 11 4f707573 00 000001 fc 01 000000"),
    ),
    (
        "many codecs",
        ExtendedAudio(A.CODED_FRAMES, (Track(b"Opus", h("fc"), 0), Track(b"mp4a", h("21"), 7)), CODECS),
        h("95 21 4f707573 00 000001 fc 6d703461 07 000001 21"),
    ),
]

# (payload, what is wrong with it, how many tracks were read before)
FAULTY_VIDEO: list[tuple[str, str, int]] = [
    ("17 01 0000", "the header is cut off", 0),
    ("57", "the header is cut off", 0),
    ("17 03 000000", "the packet type is unknown", 0),
    ("19 00", "the codec id is unknown", 0),
    ("90 687663", "the FourCC is cut off", 0),
    ("91 68766331 0000", "the composition time is cut off", 0),
    ("d1", "the command is cut off", 0),
    ("97", "an extension is cut off", 0),
    ("97 ff00", "an extension is cut off", 0),
    ("97 02 000001", "an extension is cut off", 0),
    ("97" + " 00 00 07" * 9 + " 00 00 03 68766331", "more than 8 extensions", 0),
    ("96", "the kind of multitrack is cut off", 0),
    ("96 31 68766331 00", "the kind of multitrack is unknown", 0),
    ("96 06 68766331 00", "a multitrack within a multitrack", 0),
    ("96 17 68766331 00", "a multitrack within a multitrack", 0),
    ("96 03 68766331", "a track is cut off", 0),
    ("96 13 68766331", "no track in a message of tracks", 0),
    ("96 23", "no track in a message of tracks", 0),
    ("96 13 68766331 00 000001 aa 01 000002 bb", "a track is cut off", 1),
    ("96 13 68766331 00 000001 aa 01 0000", "a track is cut off", 1),
    ("96 11 68766331 00 000003 000000 01 000002 0000", "the composition time is cut off", 1),
    ("96 23 68766331 00 000001 aa 6176", "the FourCC is cut off", 1),
    ("96 13 68766331" + " 00 000000" * 33, "more than 32 tracks", 32),
]

FAULTY_AUDIO: list[tuple[str, str, int]] = [
    ("af", "the header is cut off", 0),
    ("af 02", "the packet type is unknown", 0),
    ("90 4f70", "the FourCC is cut off", 0),
    ("97 00", "an extension is cut off", 0),
    ("95 05 6d703461 00", "a multitrack within a multitrack", 0),
    ("95 11 6d703461 00 ffffff aa", "a track is cut off", 0),
]
