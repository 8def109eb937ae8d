"""To go on with a file that was finished: its own index and its last tags say where, without a look at all of it."""

from io import BytesIO

import pytest

from ingest.flv import FlvWriter, read_index
from ingest.rtmp.messages import MessageType
from tests.ingest.flv.files import media, written
from tests.ingest.flv.test_growing import Counting

DATA = (int(MessageType.DATA_AMF0), 59_950, b"\x02\x00\x02hi")


def gone_on(stream: BytesIO) -> bytes:
    """With ten seconds more."""
    writer = FlvWriter.resume(stream)
    for item in media(10, start=60_000):
        writer.write(*item)
    writer.finish()
    return stream.getvalue()


@pytest.mark.parametrize("tags", [media(60), [*media(60), DATA]], ids=["media", "data at the end"])
def test_a_finished_file_is_not_looked_through(tags: list[tuple[int, int, bytes]]) -> None:
    finished = Counting(written(tags).getvalue())
    made = gone_on(finished)
    assert made == gone_on(written(tags, finished=False)), "the same as by looking at each tag"
    assert finished.reads < 300
    assert read_index(BytesIO(made)).duration_ms == 69_907


@pytest.mark.parametrize(
    "tags",
    [
        [*media(30), *media(30, start=2**32 - 10_000)],
        [*media(60), (8, 5, b"\xaf\x01late")],
    ],
    ids=["begins again", "ends before it began"],
)
def test_what_the_index_can_not_tell_is_looked_through(tags: list[tuple[int, int, bytes]]) -> None:
    assert gone_on(written(tags)) == gone_on(written(tags, finished=False))
