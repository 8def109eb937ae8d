"""The micro-benchmark of the chunk reader."""

import pytest

from bench.micro.chunks import READS, reads, run
from bench.micro.ingest import CHUNK_SIZES
from bench.micro.live_fanout import AUDIO, VIDEO


@pytest.mark.parametrize("chunk_size", CHUNK_SIZES)
@pytest.mark.parametrize("read_bytes", READS.values(), ids=READS.keys())
def test_every_message_is_read(chunk_size: int, read_bytes: int) -> None:
    given = reads(chunk_size, read_bytes, seconds=1)
    assert max(map(len, given)) == read_bytes
    cost = run(chunk_size, given)
    assert cost.messages == VIDEO + AUDIO
    assert cost.mb_per_s > 0
    assert cost.us_per_message > 0
