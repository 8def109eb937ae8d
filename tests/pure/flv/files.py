"""FLV files made by the tables of annex E, not by the code under test."""

from io import BytesIO

from ingest.flv import FlvWriter, Tag, TagReader

HEADER = b"FLV\x01\x05\x00\x00\x00\x09" + bytes(4)
AVC_HEADER = bytes.fromhex("17000000000142c01effe100096742c01e8c8d40501ee001000468ce3c80")
AAC_HEADER = bytes.fromhex("af001190")
KEY, INTER, SOUND = b"\x17\x01\x00\x00\x00key", b"\x27\x01\x00\x00\x00inter", b"\xaf\x01sound"
AUDIO, VIDEO, DATA_AMF3, DATA = 8, 9, 15, 18


Tags = list[tuple[int, int, bytes]]
"""The type, timestamp and payload of each tag."""


def tag(type_id: int, timestamp: int, payload: bytes, *, first: int | None = None, before: int | None = None) -> bytes:
    """A tag and the size behind it. `first` replaces its first byte, `before` that size."""
    head = bytes((type_id if first is None else first,)) + len(payload).to_bytes(3, "big")
    head += (timestamp & 0xFFFFFF).to_bytes(3, "big") + (timestamp >> 24).to_bytes(1, "big") + bytes(3)
    return head + payload + (11 + len(payload) if before is None else before).to_bytes(4, "big")


def tags_of(data: bytes) -> list[Tag]:
    return list(TagReader().read(BytesIO(data)))


def shape(tags: list[Tag]) -> Tags:
    return [(item.type_id, item.timestamp, item.payload) for item in tags]


def media(seconds: int, *, start: int = 0) -> Tags:
    """Headers, then 10 pictures and 10 sounds a second, with a keyframe each second."""
    made = [(VIDEO, start, AVC_HEADER), (AUDIO, start, AAC_HEADER)]
    for time in range(0, seconds * 1000, 100):
        at = (start + time) % 2**32
        number = time.to_bytes(4, "big")
        made += [(VIDEO, at, (INTER if time % 1000 else KEY) + number), (AUDIO, (at + 7) % 2**32, SOUND + number)]
    return made


def written(tags: Tags, *, finished: bool = True) -> BytesIO:
    """A file of these tags by the FLV writer."""
    stream = BytesIO()
    writer = FlvWriter.begin(stream, {"width": 320.0, "duration": 99.0})
    for item in tags:
        writer.write(*item)
    if finished:
        writer.finish()
    return stream
