"""Messages as data: name, type, content, bytes. They serve decoders, encoders, the tests of cut messages and of single
bytes, and the fuzzer alike. Bytes are built field by field, with none of the project's code.

Every table of the specification (RTMP 1.0, sections 5.4, 7.1.7 and 7.2) is here, by its section. Shared objects: name,
content, whether it is in AMF3, bytes."""

import struct
from typing import Any, NamedTuple

from ingest.rtmp.amf import UNDEFINED, Date, EcmaArray
from ingest.rtmp.amf.amf3 import Dictionary
from ingest.rtmp.messages.commands import Command
from ingest.rtmp.messages.control import BandwidthLimit
from ingest.rtmp.messages.control import UserControl as Event
from ingest.rtmp.messages.shared_object import (
    Change,
    Clear,
    OtherEvent,
    Release,
    Remove,
    RequestChange,
    RequestRemove,
    SendMessage,
    SharedObject,
    SharedObjectEvent,
    Status,
    Success,
    Use,
    UseSuccess,
)
from tests.pure.rtmp.wire import h


class Vector(NamedTuple):
    name: str
    type_id: int
    content: Any
    """A number; for Set Peer Bandwidth size and limit; an event and its values; a Command; name and values of data."""
    payload: bytes


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


def o(members: dict[str, Any]) -> bytes:
    return b"\x03" + b"".join(key(name) + value(content) for name, content in members.items()) + h("000009")


def value(content: Any) -> bytes:
    match content:
        case None:
            return NULL
        case bool():
            return TRUE if content else FALSE
        case str():
            return t(content)
        case EcmaArray():
            return b"\x08" + len(content).to_bytes(4, "big") + o(content)[1:]
        case dict():
            return o(content)
    return n(content)


CONTROL: list[Vector] = [
    Vector("5.4.1 Set Chunk Size: the least", 1, 1, h("00000001")),
    Vector("5.4.1 Set Chunk Size", 1, 60_000, h("0000ea60")),
    Vector("5.4.1 Set Chunk Size: the most", 1, 2**31 - 1, h("7fffffff")),
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
        *("SWF verification: response", 4, (Event.SWF_VERIFY_RESPONSE, 0x0101, 1000, 1000, b"#" * 32)),
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


def command(name: str, procedure: str, transaction: int, command_object: Any = None, *arguments: Any) -> Vector:
    fields = (procedure, transaction, command_object, *arguments)
    content = Command(procedure, transaction, command_object, list(arguments))
    return Vector(name, 20, content, b"".join(map(value, fields)))


def status(section: str, level: str, code: str) -> Vector:
    """onStatus: transaction id 0, no command object, level, code and description."""
    return command(f"{section} {code}", "onStatus", 0, None, {"level": level, "code": code, "description": "words"})


EXAMPLES = {
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
}
SUCCEEDED = {"level": "status", "code": "NetConnection.Connect.Success"}
REJECTED = {"level": "error", "code": "NetConnection.Connect.Rejected"}
OPTIONS = {"streamName": "high", "oldStreamName": "low", "start": -2.0, "len": -1.0, "transition": "switch"}

COMMANDS: list[Vector] = [
    command(
        "7.2.1.1 connect: all properties, with the table's examples, and an optional argument",
        *("connect", 1, EXAMPLES, {"user": "optional"}),
    ),
    *(
        command(f"7.2.1.1 connect: {property_name} {value_name}", "connect", 1, {property_name: float(number)})
        for property_name, value_name, number in PROPERTY_VALUES
    ),
    command("7.2.1.1 connect: the response", "_result", 1, {"fmsver": "FMS/3,0"}, SUCCEEDED),
    command("7.2.1.1 connect: the response of an error", "_error", 1, None, REJECTED),
    command("7.2.1.2 call", "add", 7, None, 1.0, 2.0),
    command("7.2.1.2 call: with a command object and no answer wanted", "note", 0, {"a": True}, "text"),
    command("7.2.1.2 call: the response", "_result", 7, None, 3.0),
    command("7.2 a response by a method's name", "verifyClient", 2),
    command("7.2.1 close", "close", 0),
    command("7.2.1.3 createStream", "createStream", 4),
    command("7.2.1.3 createStream: the response", "_result", 4, None, 1.0),
    command("7.2.1.3 createStream: the response of an error", "_error", 4, None, {"level": "error"}),
    status("7.2.2 onStatus, a warning:", "warning", "NetStream.Play.InsufficientBW"),
    command("7.2.2.1 play", "play", 0, None, "sample"),
    *(
        command(
            f"7.2.2.1 play: {name} from {start} for {duration}, reset {reset}",
            *("play", 0, None, name, start, duration, reset),
        )
        for name, start, duration, reset in (
            ("sample", -2.0, -1.0, True),
            ("mp3:sample", -1.0, -1.0, False),
            ("mp4:sample.m4v", 0.0, 0.0, True),
            ("sample", 10.5, 30.0, 1.0),
        )
    ),
    status("7.2.2.1 play:", "status", "NetStream.Play.Reset"),
    status("7.2.2.1 play:", "status", "NetStream.Play.Start"),
    status("7.2.2.1 play:", "error", "NetStream.Play.StreamNotFound"),
    command("7.2.2.2 play2: the properties of NetStreamPlayOptions", "play2", 0, None, OPTIONS),
    command("7.2.2.3 deleteStream", "deleteStream", 0, None, 1.0),
    command("7.2.2 closeStream", "closeStream", 0),
    command("7.2.2.4 receiveAudio", "receiveAudio", 0, None, False),
    command("7.2.2.5 receiveVideo", "receiveVideo", 0, None, True),
    *(command(f"7.2.2.6 publish: {kind}", "publish", 0, None, "cam", kind) for kind in ("live", "record", "append")),
    status("7.2.2.6 publish:", "status", "NetStream.Publish.Start"),
    command("7.2.2.7 seek", "seek", 0, None, 1500.0),
    status("7.2.2.7 seek:", "status", "NetStream.Seek.Notify"),
    command("7.2.2.8 pause", "pause", 0, None, True, 1500.0),
    command("7.2.2.8 pause: on", "pause", 0, None, False, 1500.0),
    status("7.2.2.8 pause:", "status", "NetStream.Pause.Notify"),
    status("7.2.2.8 pause:", "status", "NetStream.Unpause.Notify"),
    Vector(
        *("7.1.1 a command in AMF3", 17, Command("add", 7, None, [1.0, ["x"]])),
        AMF3 + t("add") + n(7) + NULL + n(1) + h("11 09 03 01 06 03 78"),
    ),
]

METADATA = {"duration": 0.0, "width": 1280.0}

DATA: list[Vector] = [
    *(
        Vector(name, 18, values, b"".join(map(value, values)))
        for name, values in (
            ("7.1.2 metadata", ["onMetaData", METADATA]),
            ("7.1.2 metadata in an ECMA array", ["onMetaData", EcmaArray(METADATA)]),
            ("|RtmpSampleAccess", ["|RtmpSampleAccess", True, True]),
            ("@clearDataFrame", ["@clearDataFrame", "onMetaData"]),
            ("onXMPData (FLV 10.1, E.6)", ["onXMPData", {"liveXML": "<x:xmpmeta/>"}]),
            ("a handler without values", ["onFI"]),
        )
    ),
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
        *("@setDataFrame is taken off", 18, ["onMetaData", METADATA]),
        t("@setDataFrame") + t("onMetaData") + o(METADATA),
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
    ("a command by an object", 20, o({})),
    ("a command cut in its name", 20, t("connect")[:5]),
    ("a command in AMF3 without a name", 17, AMF3),
    ("data without a name", 18, n(1)),
    ("data in AMF3 without a name", 15, AMF3 + NULL),
    ("data of @setDataFrame alone", 18, t("@setDataFrame")),
]

Case = tuple[str, SharedObject, bool, bytes]

HEAD = "0001 73  00000007 00000000 00000000"
"""The object 's' in version 7."""


def case(name: str, body: str, *happened: SharedObjectEvent, amf3: bool = False) -> Case:
    return (name, SharedObject("s", 7, False, list(happened)), amf3, h(("00" if amf3 else "") + HEAD + body))


OBJECTS: list[Case] = [
    case("no event", ""),
    case("use", "01 00000000", Use()),
    case("release", "02 00000000", Release()),
    case("request change", "03 0000000b 0003 666f6f 02 0003 626172", RequestChange("foo", "bar")),
    case("request change to nothing", "03 00000006 0003 666f6f 05", RequestChange("foo", None)),
    case("change", "04 0000000e 0003 666f6f 00 3ff0000000000000", Change("foo", 1.0)),
    case("success", "05 00000005 0003 666f6f", Success("foo")),
    case("message", "06 00000004 02 0001 66", SendMessage("f")),
    case("message with values", "06 00000007 02 0001 66 0101 05", SendMessage("f", [True, None])),
    case(
        "status",
        "07 00000022 0019 5368617265644f626a6563742e4e6f52656164416363657373 0005 6572726f72",
        Status("SharedObject.NoReadAccess", "error"),
    ),
    case("clear", "08 00000000", Clear()),
    case("remove", "09 00000005 0003 666f6f", Remove("foo")),
    case("request remove", "0a 00000005 0003 666f6f", RequestRemove("foo")),
    case("use success", "0b 00000000", UseSuccess()),
    case("unknown event", "0c 00000003 010203", OtherEvent(12, b"\x01\x02\x03")),
    case("unknown event without a body", "00 00000000", OtherEvent(0, b"")),
    case("empty names", "09 00000002 0000 0a 00000002 0000", Remove(""), RequestRemove("")),
    case(
        "what a new user is sent",
        "0b 00000000 08 00000000 04 00000005 0001 61 0101 04 00000005 0001 62 0100",
        UseSuccess(),
        Clear(),
        Change("a", True),
        Change("b", False),
    ),
    case(
        "references over several events",
        "04 0000000a 0001 61 0a 00000001 0101 04 00000006 0001 62 07 0000",
        Change("a", shared := [True]),
        Change("b", shared),
    ),
    ("persistent", SharedObject("s", 7, True, []), False, h("0001 73 00000007 00000002 00000000")),
    ("highest version", SharedObject("", 2**32 - 1, False, []), False, h("0000 ffffffff 00000000 00000000")),
    case("AMF3: use", "01 00000000", Use(), amf3=True),
    case("AMF3: change of a simple value", "04 00000005 0001 61 0101", Change("a", True), amf3=True),
    case("AMF3: change", "04 00000009 0001 61 11 09 03 01 06 01", Change("a", [""]), amf3=True),
    case("AMF3: bytes", "03 00000007 0001 61 11 0c 03 ff", RequestChange("a", b"\xff"), amf3=True),
    case("AMF3: message", "06 0000000d 02 0001 66 00 3ff0000000000000", SendMessage("f", [1.0]), amf3=True),
    case(
        "AMF3: tables over several events",
        "04 0000000a 0001 61 11 09 03 01 06 03 78 06 0000000d 02 0001 66 11 09 03 01 06 00 11 09 00",
        Change("a", again := ["x"]),
        SendMessage("f", [["x"], again]),
        amf3=True,
    ),
]

OBJECTS_ONE_WAY: list[Case] = [
    case("several changes in a body", "04 0000000a 0001 61 0101 0001 62 0100", Change("a", True), Change("b", False)),
    case("several names in a body", "05 00000006 0001 61 0001 62", Success("a"), Success("b")),
    case("a body that none should have", "08 00000003 010203 01 00000000", Clear(), Use()),
    case("a status with a rest", "07 00000007 0001 61 0001 62 00", Status("a", "b")),
    case("AMF3 in type 19", "04 00000006 0001 61 11 04 05", Change("a", 5)),
    case("a handler in AMF3", "06 00000005 11 06 05 6f6e", SendMessage("on"), amf3=True),
    *(
        case(f"bare AMF3: {name}", f"04 {3 + len(h(body)):08x} 0001 61 {body}", Change("a", value), amf3=True)
        for name, body, value in [
            ("undefined", "00", UNDEFINED),
            ("null", "01", None),
            ("false", "02", False),
            ("true", "03", True),
            ("integer", "04 05", 5),
            ("double", "05 3ff0000000000000", 1.0),
            ("double of zeros", "05 0000000000000000", 0.0),
            ("text", "06 07 616263", "abc"),
            ("empty text", "06 01", ""),
            ("long text", "06 8101" + "61" * 64, "a" * 64),
            ("date", "08 01 0000000000000000", Date(0.0)),
            ("array", "09 05 01 06 03 78 06 00", ["x", "x"]),
            ("object", "0a 0b 01 03 78 01 01", {"x": None}),
            ("bytes", "0c 03 ff", b"\xff"),
            ("dictionary", "11 03 00 04 01 03", Dictionary([(1, True)])),
        ]
    ),
    case(
        "bare AMF3: several properties, and a message by the same tables",
        "04 0000000b 0001 61 06 03 78 0001 62 06 00 06 00000007 02 0001 66 06 00 03",
        Change("a", "x"),
        Change("b", "x"),
        SendMessage("f", ["x", True]),
        amf3=True,
    ),
    case("bare AMF3: a handler too", "06 00000005 06 03 66 04 05", SendMessage("f", [5]), amf3=True),
    ("other flags", SharedObject("s", 7, False, []), False, h("0001 73 00000007 00000030 00000000")),
    ("other flags and persistent", SharedObject("s", 7, True, []), False, h("0001 73 00000007 00000012 00000001")),
]

OBJECTS_REFUSED: list[tuple[str, bool, bytes]] = [
    ("nothing", False, b""),
    ("a cut head", False, h("0001 73 00000007 00000000 000000")),
    ("an event without a length", False, h(HEAD + "01 000000")),
    ("a cut body", False, h(HEAD + "05 00000006 0003 666f6f")),
    ("no name", False, h(HEAD + "09 00000000")),
    ("a name over the end of its body", False, h(HEAD + "09 00000004 0003 6162 0b 00000000")),
    ("a value over the end of its body", False, h(HEAD + "04 00000008 0001 61 00 3ff00000 0b 00000000")),
    ("no value", False, h(HEAD + "04 00000003 0001 61")),
    ("an unknown value", False, h(HEAD + "04 00000004 0001 61 ff")),
    ("no handler", False, h(HEAD + "06 00000000")),
    ("a handler that is no text", False, h(HEAD + "06 00000001 05")),
    ("a status without a level", False, h(HEAD + "07 00000003 0001 61")),
    ("AMF3: nothing", True, b""),
    ("AMF3: another format", True, h("03" + HEAD)),
    ("bare AMF3 in type 19", False, h(HEAD + "04 00000008 0001 61 06 07 616263")),
    ("bare AMF3: a value over the end of its body", True, h("00" + HEAD + "04 00000005 0001 61 04 ff 0b 00000000")),
    ("bare AMF3: a handler that is no text", True, h("00" + HEAD + "06 00000002 04 05")),
    ("bare AMF3: no handler", True, h("00" + HEAD + "06 00000000")),
    ("AMF3: an integer over the end of its body", True, h("00" + HEAD + "04 00000006 0001 61 11 04 ff 0b 00000000")),
]
