"""Shared object messages as data: name, content, whether it is in AMF3, bytes."""

from ingest.rtmp.amf.amf0 import UNDEFINED, Date
from ingest.rtmp.amf.amf3 import Dictionary
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

Case = tuple[str, SharedObject, bool, bytes]

HEAD = "0001 73  00000007 00000000 00000000"
"""The object 's' in version 7."""


def h(text: str) -> bytes:
    return bytes.fromhex(text)


def case(name: str, body: str, *happened: SharedObjectEvent, amf3: bool = False) -> Case:
    return (name, SharedObject("s", 7, False, list(happened)), amf3, h(("00" if amf3 else "") + HEAD + body))


BOTH_WAYS: list[Case] = [
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

ONE_WAY: list[Case] = [
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

REFUSED: list[tuple[str, bool, bytes]] = [
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
