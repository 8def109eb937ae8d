"""Chunks as data: name, messages, bytes (RTMP 1.0, section 5.3). They serve the reader, the writer, the tests of cut
bytes and the fuzzer alike. A message is type, timestamp, message stream and payload, as the reader gives it.
"""

from tests.pure.rtmp.wire import abort, basic, h, set_chunk_size, type0, type1, type2, type3

Raw = tuple[int, int, int, bytes]
Vector = tuple[str, list[Raw], bytes]

USER_CONTROL, AUDIO, VIDEO = 4, 8, 9

B300 = bytes(range(256)) + b"b" * 44
LATE = 0x01020304
"""A timestamp that needs the extended field."""


BOTH_WAYS: list[Vector] = [
    (
        "example 1 of the specification (5.3.2.1): 44, 36, 33 and 33 bytes",
        [(AUDIO, 1000 + 20 * n, 12345, bytes([0x31 + n]) * 32) for n in range(4)],
        h("03 0003e8 000020 08 39300000") + b"1" * 32
        + h("83 000014") + b"2" * 32
        + h("c3") + b"3" * 32
        + h("c3") + b"4" * 32,
    ),
    (
        "example 2 of the specification (5.3.2.2): 140, 129 and 52 bytes",
        [(VIDEO, 1000, 12346, b"v" * 128 + b"w" * 128 + b"x" * 51)],
        h("04 0003e8 000133 09 3a300000") + b"v" * 128
        + h("c4") + b"w" * 128
        + h("c4") + b"x" * 51,
    ),
    ("the message stream id is little-endian", [(AUDIO, 1, 0x12345678, b"\xff")],
     h("03 000001 000001 08 78563412 ff")),
    (
        "types 0, 1, 2, 3",
        [(VIDEO, 10, 1, b"a"), (AUDIO, 15, 1, b"bc"), (AUDIO, 22, 1, b"de"), (AUDIO, 29, 1, b"fg")],
        h("04 00000a 000001 09 01000000 61   44 000005 000002 08 6263   84 000007 6465   c4 6667"),
    ),
    ("an empty message", [(AUDIO, 5, 1, b""), (AUDIO, 9, 1, b"")],
     h("04 000005 000000 08 01000000   84 000004")),
    ("chunk stream 2", [(USER_CONTROL, 0, 0, bytes(6))], h("02 000000 000006 04 00000000 000000000000")),
    ("chunk stream 63", [(AUDIO, 0, 1, b"a")], h("3f 000000 000001 08 01000000 61")),
    ("chunk stream 64: two bytes", [(AUDIO, 0, 1, b"a")], h("00 00 000000 000001 08 01000000 61")),
    ("chunk stream 319", [(AUDIO, 0, 1, b"a")], h("00 ff 000000 000001 08 01000000 61")),
    ("chunk stream 320: three bytes, little-endian", [(AUDIO, 0, 1, b"a")],
     h("01 0001 000000 000001 08 01000000 61")),
    ("chunk stream 365 (5.3.1.1)", [(AUDIO, 0, 1, b"\xaa" * 128 + b"\xbb")],
     h("01 2d01 000000 000081 08 01000000") + b"\xaa" * 128 + h("c1 2d01 bb")),
    ("chunk stream 65599", [(AUDIO, 0, 1, b"a")], h("01 ffff 000000 000001 08 01000000 61")),
    ("exactly one chunk", [(VIDEO, 0, 1, b"v" * 128)], h("06 000000 000080 09 01000000") + b"v" * 128),
    ("the last timestamp of 3 bytes", [(AUDIO, 0xFFFFFE, 1, b"a")], h("04 fffffe 000001 08 01000000 61")),
    ("the first extended timestamp", [(AUDIO, 0xFFFFFF, 1, b"a")],
     h("04 ffffff 000001 08 01000000 00ffffff 61")),
    (
        "an extended timestamp is repeated by further chunks, and ends with the next header",
        [(VIDEO, LATE, 1, B300), (VIDEO, LATE + 1, 1, B300)],
        h("06 ffffff 00012c 09 01000000 01020304") + B300[:128]
        + h("c6 01020304") + B300[128:256] + h("c6 01020304") + B300[256:]
        + h("86 000001") + B300[:128] + h("c6") + B300[128:256] + h("c6") + B300[256:],
    ),
    ("time wraps at 2^32", [(AUDIO, 0xFFFFFFF0, 1, b"a"), (AUDIO, 0x10, 1, b"b")],
     h("04 ffffff 000001 08 01000000 fffffff0 61   84 000020 62")),
    ("time goes back: a type 0 (5.3.1.2.1)", [(AUDIO, 100, 1, b"a"), (AUDIO, 60, 1, b"b")],
     h("04 000064 000001 08 01000000 61   04 00003c 000001 08 01000000 62")),
    ("another message stream: a type 0 (5.3.1.2.5)", [(AUDIO, 1, 1, b"a"), (AUDIO, 2, 2, b"b")],
     h("04 000001 000001 08 01000000 61   04 000002 000001 08 02000000 62")),
    ("unknown types are given like others", [(99, 0, 7, b"?")], h("04 000000 000001 63 07000000 3f")),
]  # fmt: skip
"""All messages on the chunk stream of the first header; our writer makes the same bytes of them."""

ONE_WAY: list[Vector] = [
    (
        "a type 3 after a type 0 adds its timestamp (5.3.1.2.4)",
        [(AUDIO, 40, 1, b"a"), (AUDIO, 80, 1, b"b"), (AUDIO, 120, 1, b"c")],
        type0(4, 40, AUDIO, 1, b"a") + type3(4, b"b") + type3(4, b"c"),
    ),
    ("the same with an extended timestamp", [(AUDIO, LATE, 1, b"a"), (AUDIO, 2 * LATE, 1, b"b")],
     type0(4, LATE, AUDIO, 1, b"a") + type3(4, b"b", LATE)),
    ("an empty message by type 3", [(AUDIO, 5, 1, b""), (AUDIO, 10, 1, b"")],
     type0(4, 5, AUDIO, 1, b"") + type3(4, b"")),
    ("a type 1 begins a chunk stream, as librtmp does", [(4, 3, 0, bytes(6))], type1(2, 3, 4, bytes(6))),
    (
        "librtmp's control messages of one time, by type 3",
        [(3, 5, 0, b"abcd"), (3, 10, 0, b"efgh")],
        type1(2, 5, 3, b"abcd") + type3(2, b"efgh"),
    ),
    (
        "librtmp's frames of one time, by type 3: it means a delta of 0, and is read as the specification says",
        [(AUDIO, 0, 1, b"a"), (AUDIO, 20, 1, b"b"), (AUDIO, 40, 1, b"c"), (VIDEO, 53, 1, b"dd")],
        type0(4, 0, AUDIO, 1, b"a") + type2(4, 20, b"b") + type3(4, b"c") + type1(4, 13, VIDEO, b"dd"),
    ),
    (
        "audio and video on one chunk stream, as librtmp: deltas modulo 2^32, repeated by further chunks",
        [(VIDEO, 100, 1, B300), (AUDIO, 60, 1, b"a"), (VIDEO, 133, 1, b"v"), (VIDEO, 90, 1, B300)],
        type0(4, 100, VIDEO, 1, B300[:128], 300) + type3(4, B300[128:256]) + type3(4, B300[256:])
        + type1(4, 2**32 - 40, AUDIO, b"a") + type1(4, 73, VIDEO, b"v")
        + type1(4, 2**32 - 43, VIDEO, B300[:128], 300)
        + type3(4, B300[128:256], 2**32 - 43) + type3(4, B300[256:], 2**32 - 43),
    ),
    ("one step back by type 2 and one more by type 3", [(AUDIO, 9, 1, b"a"), (AUDIO, 7, 1, b"b"), (AUDIO, 5, 1, b"c")],
     type0(4, 9, AUDIO, 1, b"a") + type2(4, 2**32 - 2, b"b") + type3(4, b"c", 2**32 - 2)),
    (
        "one id in its two-byte and its three-byte form",
        [(AUDIO, 1, 1, b"a" * 128 + b"b" * 72)],
        type0(70, 1, AUDIO, 1, b"a" * 128, 200) + basic(3, 70, long_form=True) + b"b" * 72,
    ),
    (
        "two chunk streams interleaved",
        [(AUDIO, 1, 1, b"a" * 200), (VIDEO, 2, 1, B300)],
        type0(4, 1, AUDIO, 1, b"a" * 128, 200) + type0(6, 2, VIDEO, 1, B300[:128], 300)
        + type3(4, b"a" * 72) + type3(6, B300[128:256]) + type3(6, B300[256:]),
    ),
    (
        "further chunks that repeat the header (5.3.1.2.4: they should be of type 3)",
        [(VIDEO, 100, 1, B300), (VIDEO, 120, 1, B300), (VIDEO, 121, 1, B300), (VIDEO, 122, 1, B300)],
        type0(6, 100, VIDEO, 1, B300[:128], 300) + type0(6, 100, VIDEO, 1, B300[128:256], 300) + type3(6, B300[256:])
        + type1(6, 20, VIDEO, B300[:128], 300) + type1(6, 20, VIDEO, B300[128:256], 300) + type2(6, 0, B300[256:])
        + type2(6, 1, B300[:128]) + type2(6, 1, B300[128:256]) + type3(6, B300[256:])
        + type3(6, B300[:128]) + type2(6, 1, B300[128:256]) + type3(6, B300[256:]),
    ),
    (
        "such a header counts for the type 3 chunks that follow: delta and extended timestamp",
        [(VIDEO, LATE, 1, B300), (VIDEO, LATE + 1, 1, B300), (VIDEO, 2 * LATE + 1, 1, B300)],
        type0(6, LATE, VIDEO, 1, B300[:128], 300) + type3(6, B300[128:256], LATE) + type2(6, 0, B300[256:])
        + type2(6, 1, B300[:128]) + type0(6, LATE + 1, VIDEO, 1, B300[128:256], 300) + type3(6, B300[256:], LATE + 1)
        + type2(6, LATE, B300[:128]) + type1(6, 0, VIDEO, B300[128:256], 300) + type3(6, B300[256:]),
    ),
    (
        "Set Chunk Size between the chunks of a message",
        [(VIDEO, 2, 1, B300)],
        type0(6, 2, VIDEO, 1, B300[:128], 300) + set_chunk_size(40) + type3(6, B300[128:168]) + set_chunk_size(4096)
        + type3(6, B300[168:]),
    ),
    (
        "chunk size 1, and back",
        [(AUDIO, 0, 1, b"abc"), (AUDIO, 1, 1, b"def")],
        set_chunk_size(1) + type0(4, 0, AUDIO, 1, b"a", 3) + type3(4, b"b") + type3(4, b"c") + set_chunk_size(128, 1)
        + type0(4, 1, AUDIO, 1, b"def"),
    ),
    ("the top bit of the chunk size is not judged", [(VIDEO, 0, 1, bytes(4096))],
     set_chunk_size(0x80001000) + type0(4, 0, VIDEO, 1, bytes(4096))),
    ("the largest chunk size", [(VIDEO, 0, 1, bytes(100_000))],
     set_chunk_size(0x7FFFFFFF) + type0(4, 0, VIDEO, 1, bytes(100_000))),
    (
        "Abort drops what is under way, and the chunk stream remembers its header",
        [(VIDEO, 3, 1, B300)],
        type0(6, 2, VIDEO, 1, bytes(128), 300) + abort(6) + type2(6, 1, B300[:128]) + type3(6, B300[128:256])
        + type3(6, B300[256:]),
    ),
    (
        "Abort of one of two chunk streams",
        [(AUDIO, 1, 1, b"a" * 200)],
        type0(365, 2, VIDEO, 1, bytes(128), 300) + type0(4, 1, AUDIO, 1, b"a" * 128, 200) + abort(365)
        + type3(4, b"a" * 72),
    ),
    ("Abort of chunk streams that have nothing under way", [(AUDIO, 0, 1, b"a")],
     abort(6) + abort(2) + abort(0xFFFFFFFF) + type0(6, 0, AUDIO, 1, b"a")),
    (
        "an extended timestamp, not repeated by type 3 chunks",
        [(VIDEO, 0x7F020304, 1, B300)],
        type0(6, 0x7F020304, VIDEO, 1, B300[:128], 300) + type3(6, B300[128:256]) + type3(6, B300[256:]),
    ),
    (
        "not repeated, and the last chunk is shorter than an extended timestamp",
        [(VIDEO, 0x7F020304, 1, B300[:128] + b"zz")],
        type0(6, 0x7F020304, VIDEO, 1, B300[:128], 130) + type3(6, b"zz"),
    ),
    (
        "an extended delta, repeated by a type 3 that begins a message",
        [(VIDEO, 5, 1, b"a"), (VIDEO, 0x01000005, 1, b"b"), (VIDEO, 0x02000005, 1, b"c"), (VIDEO, 0x03000004, 1, b"d")],
        type0(6, 5, VIDEO, 1, b"a") + type1(6, 0x01000000, VIDEO, b"b") + type3(6, b"c", 0x01000000)
        + type2(6, 0xFFFFFF, b"d"),
    ),
    (
        "an extended delta, not repeated",
        [(VIDEO, 5, 1, b"a"), (VIDEO, 0x01000005, 1, b"b"), (VIDEO, 0x02000005, 1, b"c"), (VIDEO, 0x02000006, 1, b"d")],
        type0(6, 5, VIDEO, 1, b"a") + type1(6, 0x01000000, VIDEO, b"b") + type3(6, b"c") + type2(6, 1, b"d"),
    ),
    ("a small timestamp in the extended field", [(AUDIO, 7, 1, b"a")], h("04 ffffff 000001 08 01000000 00000007 61")),
]  # fmt: skip
"""What other senders write in their own ways."""

REFUSED: list[tuple[str, bytes]] = [
    ("a chunk stream begins with type 2", type2(4, 0, b"a")),
    ("a chunk stream begins with type 3", type3(4, b"a")),
    ("a message begins within one, type 0", type0(4, 0, VIDEO, 1, bytes(128), 300) + type0(4, 1, VIDEO, 1, b"a")),
    ("of another message stream", type0(4, 0, VIDEO, 1, bytes(128), 300) + type0(4, 0, VIDEO, 2, bytes(128), 300)),
    ("of another time", type0(4, 0, VIDEO, 1, bytes(128), 300) + type0(4, 1, VIDEO, 1, bytes(128), 300)),
    ("of another length", type0(4, 0, VIDEO, 1, bytes(128), 300) + type1(4, 0, VIDEO, bytes(128), 301)),
    ("of another type", type0(4, 0, VIDEO, 1, bytes(128), 300) + type1(4, 0, AUDIO, bytes(128), 300)),
    ("a message begins within one, type 2", type0(4, 0, VIDEO, 1, bytes(128), 300) + type2(4, 33, bytes(128))),
    ("a chunk size of 0", set_chunk_size(0)),
    ("a chunk size of 0 with the top bit", set_chunk_size(0x80000000)),
    ("Set Chunk Size of three bytes", type0(2, 0, 1, 0, bytes(3))),
    ("an empty Abort", type0(2, 0, 2, 0, b"")),
]
