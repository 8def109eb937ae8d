"""AMF0 values as data: name, value, bytes. They serve the decoder, the encoder and the tests of cut messages alike."""

from typing import Any

from ingest.rtmp.amf import UNDEFINED, UNSUPPORTED, Date, EcmaArray, Reference, TypedObject, XmlDocument
from tests.pure.rtmp.wire import h

Vector = tuple[str, Any, bytes]


BOTH_WAYS: list[Vector] = [
    ("zero", 0.0, h("00 0000000000000000")),
    ("one", 1.0, h("00 3ff0000000000000")),
    ("negative fraction", -0.5, h("00 bfe0000000000000")),
    ("infinity", float("inf"), h("00 7ff0000000000000")),
    ("true", True, h("01 01")),
    ("false", False, h("01 00")),
    ("empty string", "", h("02 0000")),
    ("string", "live", h("02 0004 6c697665")),
    ("string of two-, three- and four-byte characters", "é€😀", h("02 0009 c3a9 e282ac f09f9880")),
    ("longest short string", "a" * 65535, h("02 ffff") + b"a" * 65535),
    ("shortest long string", "a" * 65536, h("0c 00010000") + b"a" * 65536),
    ("null", None, h("05")),
    ("undefined", UNDEFINED, h("06")),
    ("unsupported", UNSUPPORTED, h("0d")),
    ("empty object", {}, h("03 000009")),
    ("object", {"a": 1.0, "bc": "d"}, h("03 0001 61 003ff0000000000000 0002 6263 020001 64 000009")),
    ("object in an object", {"o": {"x": None}}, h("03 0001 6f 03 0001 78 05 000009 000009")),
    ("empty ECMA array", EcmaArray(), h("08 00000000 000009")),
    ("ECMA array", EcmaArray({"0": True, "n": None}), h("08 00000002 0001 30 0101 0001 6e 05 000009")),
    ("empty strict array", [], h("0a 00000000")),
    ("strict array", ["hvc1", None, 2.0], h("0a 00000003 020004 68766331 05 004000000000000000")),
    ("date", Date(1_000.0), h("0b 408f400000000000 0000")),
    ("date before 1970 with a zone", Date(-1.0, -120), h("0b bff0000000000000 ff88")),
    ("XML document", XmlDocument("<a/>"), h("0f 00000004 3c612f3e")),
    (
        "typed object",
        TypedObject("pkg.Point", {"x": 1.0}),
        h("10 0009") + b"pkg.Point" + h("0001 78 003ff0000000000000 000009"),
    ),
    ("typed object without a name", TypedObject(""), h("10 0000 000009")),
    ("property without a name", {"": 1.0, "b": True}, h("03 0000 003ff0000000000000 0001 62 0101 000009")),
    ("reference to what encloses it", {"self": Reference(0)}, h("03 0004 73656c66 070000 000009")),
]

ONE_WAY: list[Vector] = [
    ("any byte is true", True, h("01 7f")),
    ("short text as a long string", "hi", h("0c 00000002 6869")),
    ("ECMA array that promises more", EcmaArray({"a": None}), h("08 000000ff 0001 61 05 000009")),
    ("ECMA array that promises nothing", EcmaArray({"a": None}), h("08 00000000 0001 61 05 000009")),
    ("ECMA array that promises everything", EcmaArray(), h("08 ffffffff 000009")),
    ("ECMA array without an end", EcmaArray({"a": None}), h("08 00000001 0001 61 05")),
    ("the last of two properties of one name", {"a": False}, h("03 0001 61 0101 0001 61 0100 000009")),
    ("bytes that aren't UTF-8", "caf\ufffd", h("02 0004 636166e9")),
    ("AMF3 value", [1, "a"], h("11 09 05 01 04 01 06 03 61")),
    (
        "AMF3 value in an object, AMF0 after it",
        {"a": {"b": 1}, "c": 1.0},
        h("03 0001 61 11 0a 0b 01 03 62 04 01 01 0001 63 003ff0000000000000 000009"),
    ),
    ("reference to a finished object", [{"a": None}, {"a": None}], h("0a 00000002 03 0001 61 05 000009 070001")),
    (
        "reference within a reference",
        {"a": [None], "b": {"c": [None]}, "d": {"c": [None]}},
        h("03 0001 61 0a 00000001 05 0001 62 03 0001 63 070001 000009 0001 64 070002 000009"),
    ),
    (
        "reference into what a later property of its name replaced, which can not be written again",
        {"a": None, "b": [Reference(2)]},
        h("03 0001 61 0a00000001 0a00000001 070002 0001 61 05 0001 62 070002 000009"),
    ),
]

REFUSED: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("movie clip", h("04")),
    ("record set", h("0e")),
    ("end outside of an object", h("09")),
    ("AMF3 value that is missing", h("11")),
    ("AMF3 value of an unknown marker", h("11 12")),
    ("AMF3 reference to a value of AMF0", h("0a 00000001 11 0a 00")),
    ("unknown marker", h("12")),
    ("last unknown marker", h("ff")),
    ("strict array that promises more", h("0a 00000003 05 05")),
    ("strict array that promises everything", h("0a ffffffff")),
    ("reference to nothing", h("07 0000")),
    ("reference to what comes later", h("0a 00000002 070001 0a 00000000")),
    ("object without an end", h("03 0001 61 05")),
    ("ECMA array that has fewer and no end", h("08 00000002 0001 61 05")),
]
