"""The vectors of messages, all families alike: read, written, cut anywhere, and on the wire byte by byte."""

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from ingest.rtmp import Limits, Message, RemoteProtocolError
from ingest.rtmp.amf import UNDEFINED, EcmaArray, amf0
from ingest.rtmp.messages import control
from ingest.rtmp.messages.commands import Command, Data, decode_command, decode_data, encode_command, encode_data
from ingest.rtmp.messages.control import BandwidthLimit, UserControl, read_user_control, user_control
from ingest.rtmp.messages.control import UserControl as Event
from tests.pure.rtmp.replay import in_pieces, read_chunks
from tests.pure.rtmp.wire import Sent, chunked, h, ids

# --- Vectors, also for connections and the fuzzer: every table of RTMP 1.0, sections 5.4, 7.1.7 and 7.2 ---


class Vector(NamedTuple):
    name: str
    type_id: int
    content: Any
    """A number; for Set Peer Bandwidth size and limit; an event and its values; a Command; name and values of data."""
    payload: bytes


# AMF0, built field by field with none of the project's code.

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


LIMITS = Limits()
BOTH_WAYS = [*CONTROL, *COMMANDS, *DATA]


class Family(NamedTuple):
    """How messages of a type are read and written. `content` is as `Vector` has it."""

    read: Callable[[bytes], Any]
    write: Callable[[Any], Message]


def read_event_and_values(payload: bytes) -> tuple[Any, ...]:
    event, values = read_user_control(payload)
    return (event, *values)


def read_data(payload: bytes) -> list[Any]:
    data = decode_data(payload, LIMITS)
    return [data.name, *data.values]


FAMILIES = {
    1: Family(control.read_number, control.set_chunk_size),
    3: Family(control.read_number, control.acknowledgement),
    4: Family(read_event_and_values, lambda content: user_control(*content)),
    5: Family(control.read_number, control.window_acknowledgement_size),
    6: Family(control.read_peer_bandwidth, lambda content: control.set_peer_bandwidth(*content)),
    15: Family(read_data, lambda content: encode_data(0, 0, *content, amf3=True)),
    17: Family(lambda payload: decode_command(payload, LIMITS), lambda content: encode_command(content, amf3=True)),
    18: Family(read_data, lambda content: encode_data(0, 0, *content)),
    20: Family(lambda payload: decode_command(payload, LIMITS), encode_command),
}


@pytest.mark.parametrize("vector", BOTH_WAYS + ONE_WAY, ids=ids(BOTH_WAYS + ONE_WAY))
def test_message_vectors_are_read(vector: Vector) -> None:
    assert FAMILIES[vector.type_id].read(vector.payload) == vector.content


@pytest.mark.parametrize("vector", BOTH_WAYS, ids=ids(BOTH_WAYS))
def test_message_vectors_are_written(vector: Vector) -> None:
    assert FAMILIES[vector.type_id].write(vector.content) == Message(vector.type_id, 0, 0, vector.payload)


@pytest.mark.parametrize(("name", "type_id", "payload"), REFUSED, ids=ids(REFUSED))
def test_malformed_messages_are_refused(name: str, type_id: int, payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        FAMILIES[type_id].read(payload)


@pytest.mark.parametrize("vector", BOTH_WAYS + ONE_WAY, ids=ids(BOTH_WAYS + ONE_WAY))
def test_message_cut_anywhere_is_read_or_refused(vector: Vector) -> None:
    """A shorter message is another one, or none: what may be left out counts as said."""
    for end in range(len(vector.payload)):
        with suppress(RemoteProtocolError):
            FAMILIES[vector.type_id].read(vector.payload[:end])


SEEN_BY_CONNECTIONS = [vector for vector in BOTH_WAYS if vector.type_id != 1]
"""Set Chunk Size stays within the chunk reader, whose own vectors have it."""


@pytest.mark.parametrize("vector", SEEN_BY_CONNECTIONS, ids=ids(SEEN_BY_CONNECTIONS))
@pytest.mark.parametrize("size", [1, 1000])
def test_message_vectors_pass_through_chunks_in_any_pieces(vector: Vector, size: int) -> None:
    message = Sent(vector.type_id, 5, 1, vector.payload)
    assert read_chunks(in_pieces(chunked(message), size)) == ([message.raw], "")


def test_every_command_and_event_of_the_specification_has_its_vector() -> None:
    assert {vector.content.name for vector in COMMANDS} >= {
        "connect", "close", "createStream", "_result", "_error", "onStatus", "play", "play2", "deleteStream",
        "closeStream", "receiveAudio", "receiveVideo", "publish", "seek", "pause",
    }  # fmt: skip
    assert {vector.content[0] for vector in CONTROL if vector.type_id == 4} == set(UserControl)
    assert {vector.type_id for vector in BOTH_WAYS} == set(FAMILIES)


def test_encoded_command_has_the_given_message_stream() -> None:
    assert encode_command(Command("close", 0), 3).stream_id == 3


def test_command_has_argument_defaults_and_wants_an_answer_by_transaction() -> None:
    command = Command("x", 0, None, [1.0])
    assert (command.argument(0), command.argument(1), command.argument(1, "default")) == (1.0, None, "default")
    assert not command.answered
    assert Command("x", 0.5).answered


@pytest.mark.parametrize("prefix", [b"", b"\x00"])
def test_data_messages_are_encoded_and_decoded_with_set_data_frame(prefix: bytes) -> None:
    values: list[Any] = ["onMetaData", {"a": 1.0}]
    body = amf0.encode(*values)
    assert encode_data(1, 7, *values) == Message(18, 7, 1, body)
    for said, kept in ((b"", False), (amf0.encode("@setDataFrame"), True)):
        assert decode_data(prefix + said + body, Limits()) == Data("onMetaData", [{"a": 1.0}], body, kept=kept)
