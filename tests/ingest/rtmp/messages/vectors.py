"""Control messages, commands and data as data: name, type, content, bytes. They serve decoders, encoders, the tests of
cut messages and of single bytes, and the fuzzer alike. Bytes are built field by field, with none of the project's code.

Every table of the specification (RTMP 1.0, sections 5.4, 7.1.7 and 7.2) is here, by its section.
"""

import struct
from typing import Any, NamedTuple

from ingest.rtmp.amf.amf0 import UNDEFINED, EcmaArray
from ingest.rtmp.messages.commands import Command
from ingest.rtmp.messages.control import BandwidthLimit
from ingest.rtmp.messages.control import UserControl as Event


class Vector(NamedTuple):
    name: str
    type_id: int
    content: Any
    """A number; for Set Peer Bandwidth size and limit; an event and its values; a Command; name and values of data."""
    payload: bytes


def h(text: str) -> bytes:
    return bytes.fromhex(text)


# AMF0, by its specification.

NULL, UNDEF, TRUE, FALSE = b"\x05", b"\x06", b"\x01\x01", b"\x01\x00"
AMF3 = b"\x00"
"""The format byte of types 15 and 17."""


def n(number: float) -> bytes:
    return b"\x00" + struct.pack(">d", number)


def t(text: str) -> bytes:
    return b"\x02" + key(text)


def key(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def o(*members: tuple[str, bytes]) -> bytes:
    return b"\x03" + b"".join(key(name) + value for name, value in members) + h("000009")


def ecma(*members: tuple[str, bytes]) -> bytes:
    return b"\x08" + len(members).to_bytes(4, "big") + o(*members)[1:]


CONTROL: list[Vector] = [
    Vector("5.4.1 Set Chunk Size: the least", 1, 1, h("00000001")),
    Vector("5.4.1 Set Chunk Size", 1, 60_000, h("0000ea60")),
    Vector("5.4.1 Set Chunk Size: the most", 1, 2**31 - 1, h("7fffffff")),
    Vector("5.4.2 Abort Message", 2, 65_599, h("0001003f")),
    Vector("5.4.3 Acknowledgement", 3, 2**32 - 1, h("ffffffff")),
    Vector("5.4.4 Window Acknowledgement Size", 5, 2_500_000, h("002625a0")),
    Vector("5.4.5 Set Peer Bandwidth: hard", 6, (2_500_000, BandwidthLimit.HARD), h("002625a0 00")),
    Vector("5.4.5 Set Peer Bandwidth: soft", 6, (2_500_000, BandwidthLimit.SOFT), h("002625a0 01")),
    Vector("5.4.5 Set Peer Bandwidth: dynamic", 6, (2_500_000, BandwidthLimit.DYNAMIC), h("002625a0 02")),
    Vector("7.1.7 Stream Begin", 4, (Event.STREAM_BEGIN, 1), h("0000 00000001")),
    Vector("7.1.7 Stream EOF", 4, (Event.STREAM_EOF, 1), h("0001 00000001")),
    Vector("7.1.7 StreamDry", 4, (Event.STREAM_DRY, 2**32 - 1), h("0002 ffffffff")),
    Vector("7.1.7 SetBuffer Length", 4, (Event.SET_BUFFER_LENGTH, 1, 3000), h("0003 00000001 00000bb8")),
    Vector("7.1.7 StreamIs Recorded", 4, (Event.STREAM_IS_RECORDED, 1), h("0004 00000001")),
    Vector("7.1.7 PingRequest", 4, (Event.PING_REQUEST, 0xDEADBEEF), h("0006 deadbeef")),
    Vector("7.1.7 PingResponse", 4, (Event.PING_RESPONSE, 0xDEADBEEF), h("0007 deadbeef")),
    Vector("SWF verification: request", 4, (Event.SWF_VERIFY_REQUEST,), h("001a")),
    Vector(
        "SWF verification: response",
        4,
        (Event.SWF_VERIFY_RESPONSE, 0x0101, 1000, 1000, b"#" * 32),
        h("001b 0101 000003e8 000003e8") + b"#" * 32,
    ),
    Vector("buffer empty", 4, (Event.BUFFER_EMPTY, 1), h("001f 00000001")),
    Vector("buffer ready", 4, (Event.BUFFER_READY, 1), h("0020 00000001")),
]

AUDIO_CODECS = {
    "NONE": 0x0001, "ADPCM": 0x0002, "MP3": 0x0004, "INTEL": 0x0008, "UNUSED": 0x0010, "NELLY8": 0x0020,
    "NELLY": 0x0040, "G711A": 0x0080, "G711U": 0x0100, "NELLY16": 0x0200, "AAC": 0x0400, "SPEEX": 0x0800, "ALL": 0x0FFF,
}  # fmt: skip
VIDEO_CODECS = {
    "UNUSED": 0x0001, "JPEG": 0x0002, "SORENSON": 0x0004, "HOMEBREW": 0x0008, "VP6": 0x0010, "VP6ALPHA": 0x0020,
    "HOMEBREWV": 0x0040, "H264": 0x0080, "ALL": 0x00FF,
}  # fmt: skip
PROPERTY_VALUES = [
    *(("audioCodecs", f"SUPPORT_SND_{name}", value) for name, value in AUDIO_CODECS.items()),
    *(("videoCodecs", f"SUPPORT_VID_{name}", value) for name, value in VIDEO_CODECS.items()),
    ("videoFunction", "SUPPORT_VID_CLIENT_SEEK", 1),
    ("objectEncoding", "AMF0", 0),
    ("objectEncoding", "AMF3", 3),
]


def command(name: str, content: Command, *fields: bytes) -> Vector:
    return Vector(name, 20, content, b"".join(fields))


def status(section: str, level: str, code: str) -> Vector:
    """onStatus: transaction id 0, no command object, level, code and description."""
    info = {"level": level, "code": code, "description": "words"}
    fields = o(("level", t(level)), ("code", t(code)), ("description", t("words")))
    return command(f"{section} {code}", Command("onStatus", 0, None, [info]), t("onStatus"), n(0), NULL, fields)


COMMANDS: list[Vector] = [
    command(
        "7.2.1.1 connect: all properties, with the table's examples, and an optional argument",
        Command(
            "connect",
            1,
            {
                "app": "testapp",
                "flashver": "FMSc/1.0",
                "swfUrl": "file://C:/FlvPlayer.swf",
                "tcUrl": "rtmp://localhost:1935/testapp/instance1",
                "fpad": True,
                "audioCodecs": 4.0,
                "videoCodecs": 4.0,
                "videoFunction": 1.0,
                "pageUrl": "http://somehost/sample.html",
                "objectEncoding": 3.0,
            },
            [{"user": "optional"}],
        ),
        t("connect"),
        n(1),
        o(
            ("app", t("testapp")),
            ("flashver", t("FMSc/1.0")),
            ("swfUrl", t("file://C:/FlvPlayer.swf")),
            ("tcUrl", t("rtmp://localhost:1935/testapp/instance1")),
            ("fpad", TRUE),
            ("audioCodecs", n(4)),
            ("videoCodecs", n(4)),
            ("videoFunction", n(1)),
            ("pageUrl", t("http://somehost/sample.html")),
            ("objectEncoding", n(3)),
        ),
        o(("user", t("optional"))),
    ),
    *(
        command(
            f"7.2.1.1 connect: {property_name} {value_name}",
            Command("connect", 1, {property_name: float(value)}),
            t("connect"),
            n(1),
            o((property_name, n(value))),
        )
        for property_name, value_name, value in PROPERTY_VALUES
    ),
    command(
        "7.2.1.1 connect: the response",
        Command("_result", 1, {"fmsver": "FMS/3,0"}, [{"level": "status", "code": "NetConnection.Connect.Success"}]),
        t("_result"),
        n(1),
        o(("fmsver", t("FMS/3,0"))),
        o(("level", t("status")), ("code", t("NetConnection.Connect.Success"))),
    ),
    command(
        "7.2.1.1 connect: the response of an error",
        Command("_error", 1, None, [{"level": "error", "code": "NetConnection.Connect.Rejected"}]),
        t("_error"),
        n(1),
        NULL,
        o(("level", t("error")), ("code", t("NetConnection.Connect.Rejected"))),
    ),
    command("7.2.1.2 call", Command("add", 7, None, [1.0, 2.0]), t("add"), n(7), NULL, n(1), n(2)),
    command(
        "7.2.1.2 call: with a command object and no answer wanted",
        Command("note", 0, {"a": True}, ["text"]),
        t("note"),
        n(0),
        o(("a", TRUE)),
        t("text"),
    ),
    command("7.2.1.2 call: the response", Command("_result", 7, None, [3.0]), t("_result"), n(7), NULL, n(3)),
    command("7.2 a response by a method's name", Command("verifyClient", 2, None), t("verifyClient"), n(2), NULL),
    command("7.2.1 close", Command("close", 0, None), t("close"), n(0), NULL),
    command("7.2.1.3 createStream", Command("createStream", 4, None), t("createStream"), n(4), NULL),
    command("7.2.1.3 createStream: the response", Command("_result", 4, None, [1.0]), t("_result"), n(4), NULL, n(1)),
    command(
        "7.2.1.3 createStream: the response of an error",
        Command("_error", 4, None, [{"level": "error"}]),
        t("_error"),
        n(4),
        NULL,
        o(("level", t("error"))),
    ),
    status("7.2.2 onStatus, a warning:", "warning", "NetStream.Play.InsufficientBW"),
    command("7.2.2.1 play", Command("play", 0, None, ["sample"]), t("play"), n(0), NULL, t("sample")),
    *(
        command(
            f"7.2.2.1 play: {name} from {start} for {duration}, reset {reset}",
            Command("play", 0, None, [name, start, duration, reset]),
            t("play"),
            n(0),
            NULL,
            t(name),
            n(start),
            n(duration),
            reset_field,
        )
        for name, start, duration, reset, reset_field in (
            ("sample", -2.0, -1.0, True, TRUE),
            ("mp3:sample", -1.0, -1.0, False, FALSE),
            ("mp4:sample.m4v", 0.0, 0.0, True, TRUE),
            ("sample", 10.5, 30.0, 1.0, n(1)),
        )
    ),
    status("7.2.2.1 play:", "status", "NetStream.Play.Reset"),
    status("7.2.2.1 play:", "status", "NetStream.Play.Start"),
    status("7.2.2.1 play:", "error", "NetStream.Play.StreamNotFound"),
    command(
        "7.2.2.2 play2: the properties of NetStreamPlayOptions",
        Command(
            "play2",
            0,
            None,
            [{"streamName": "high", "oldStreamName": "low", "start": -2.0, "len": -1.0, "transition": "switch"}],
        ),
        t("play2"),
        n(0),
        NULL,
        o(
            ("streamName", t("high")),
            ("oldStreamName", t("low")),
            ("start", n(-2)),
            ("len", n(-1)),
            ("transition", t("switch")),
        ),
    ),
    command("7.2.2.3 deleteStream", Command("deleteStream", 0, None, [1.0]), t("deleteStream"), n(0), NULL, n(1)),
    command("7.2.2 closeStream", Command("closeStream", 0, None), t("closeStream"), n(0), NULL),
    command("7.2.2.4 receiveAudio", Command("receiveAudio", 0, None, [False]), t("receiveAudio"), n(0), NULL, FALSE),
    command("7.2.2.5 receiveVideo", Command("receiveVideo", 0, None, [True]), t("receiveVideo"), n(0), NULL, TRUE),
    *(
        command(
            f"7.2.2.6 publish: {kind}",
            Command("publish", 0, None, ["cam", kind]),
            t("publish"),
            n(0),
            NULL,
            t("cam"),
            t(kind),
        )
        for kind in ("live", "record", "append")
    ),
    status("7.2.2.6 publish:", "status", "NetStream.Publish.Start"),
    command("7.2.2.7 seek", Command("seek", 0, None, [1500.0]), t("seek"), n(0), NULL, n(1500)),
    status("7.2.2.7 seek:", "status", "NetStream.Seek.Notify"),
    command("7.2.2.8 pause", Command("pause", 0, None, [True, 1500.0]), t("pause"), n(0), NULL, TRUE, n(1500)),
    command("7.2.2.8 pause: on", Command("pause", 0, None, [False, 1500.0]), t("pause"), n(0), NULL, FALSE, n(1500)),
    status("7.2.2.8 pause:", "status", "NetStream.Pause.Notify"),
    status("7.2.2.8 pause:", "status", "NetStream.Unpause.Notify"),
    Vector(
        "7.1.1 a command in AMF3",
        17,
        Command("add", 7, None, [1.0, ["x"]]),
        AMF3 + t("add") + n(7) + NULL + n(1) + h("11 09 03 01 06 03 78"),
    ),
]

METADATA = {"duration": 0.0, "width": 1280.0}
METADATA_FIELDS = (("duration", n(0)), ("width", n(1280)))

DATA: list[Vector] = [
    Vector("7.1.2 metadata", 18, ["onMetaData", METADATA], t("onMetaData") + o(*METADATA_FIELDS)),
    Vector(
        "7.1.2 metadata in an ECMA array",
        18,
        ["onMetaData", EcmaArray(METADATA)],
        t("onMetaData") + ecma(*METADATA_FIELDS),
    ),
    Vector("|RtmpSampleAccess", 18, ["|RtmpSampleAccess", True, True], t("|RtmpSampleAccess") + TRUE + TRUE),
    Vector("@clearDataFrame", 18, ["@clearDataFrame", "onMetaData"], t("@clearDataFrame") + t("onMetaData")),
    Vector(
        "onXMPData (FLV 10.1, E.6)",
        18,
        ["onXMPData", {"liveXML": "<x:xmpmeta/>"}],
        t("onXMPData") + o(("liveXML", t("<x:xmpmeta/>"))),
    ),
    Vector("a handler without values", 18, ["onFI"], t("onFI")),
    Vector("undefined", 18, ["onTextData", UNDEFINED], t("onTextData") + UNDEF),
    Vector("7.1.2 data in AMF3", 15, ["onText", 1.0], AMF3 + t("onText") + n(1)),
    Vector("7.1.2 data in AMF3: a value", 15, ["onText", ["x"]], AMF3 + t("onText") + h("11 09 03 01 06 03 78")),
]

ONE_WAY: list[Vector] = [
    Vector("Set Peer Bandwidth without its limit type", 6, (1000, BandwidthLimit.DYNAMIC), h("000003e8")),
    Vector("Set Peer Bandwidth of an unknown limit type", 6, (1000, 9), h("000003e8 09")),
    Vector("control with a rest", 5, 1000, h("000003e8 ff")),
    Vector("user control with a rest", 4, (Event.STREAM_BEGIN, 1), h("0000 00000001 ff")),
    Vector("SWF verification: request with its kind", 4, (Event.SWF_VERIFY_REQUEST,), h("001a 01")),
    Vector("a command of a name alone", 20, Command("hello", 0), t("hello")),
    Vector("a command without a command object", 20, Command("hello", 2), t("hello") + n(2)),
    Vector(
        "a command in AMF3 that has none", 17, Command("hello", 2, None, [1.0]), AMF3 + t("hello") + n(2) + NULL + n(1)
    ),
    Vector("a command in AMF3 without the format byte", 17, Command("hello", 2), t("hello") + n(2) + NULL),
    Vector(
        "@setDataFrame is taken off",
        18,
        ["onMetaData", METADATA],
        t("@setDataFrame") + t("onMetaData") + o(*METADATA_FIELDS),
    ),
    Vector("data in AMF3 without the format byte", 15, ["onText", 1.0], t("onText") + n(1)),
]

REFUSED: list[tuple[str, int, bytes]] = [
    *((f"type {type_id}: nothing", type_id, b"") for type_id in (3, 4, 5, 6, 15, 17, 18, 20)),
    *((f"type {type_id}: three bytes", type_id, b"\0\0\0") for type_id in (3, 5, 6)),
    ("half an event", 4, b"\0"),
    ("an event without its value", 4, h("0000 000000")),
    ("a buffer length without its length", 4, h("0003 00000001 000000")),
    ("a command without a name", 20, n(1)),
    ("a command by an object", 20, o()),
    ("a command cut in its name", 20, t("connect")[:5]),
    ("a command in AMF3 without a name", 17, AMF3),
    ("data without a name", 18, n(1)),
    ("data in AMF3 without a name", 15, AMF3 + NULL),
    ("data of @setDataFrame alone", 18, t("@setDataFrame")),
]
