"""What the chunk reader costs by itself: megabytes per second of CPU time, and microseconds per message.

    python -m bench.micro.chunks [ROUNDS]

The stream of `bench.micro.live_fanout` at the chunk sizes that publishers use, in reads as a socket gives them: each
packet by itself (1448 bytes), or what has come in 50 ms, as publishers are read that nobody plays. Messages end
anywhere in a read.
"""

import sys
from dataclasses import dataclass
from statistics import median
from time import process_time

from bench.micro.ingest import CHUNK_SIZES, SECONDS, messages
from bench.micro.live_fanout import AUDIO, VIDEO
from ingest.rtmp import Limits, encode_message
from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.chunk_writer import CSID_CONTROL
from ingest.rtmp.messages.control import set_chunk_size

ROUNDS = 7
READS = {"packets": 1448, "50 ms": 32_000}
"""Bytes of a read."""


@dataclass(frozen=True, slots=True)
class Cost:
    messages: int
    """That came out."""
    mb_per_s: float
    """10^6 bytes, with headers, per second of CPU time."""
    us_per_message: float


def reads(chunk_size: int, read_bytes: int, seconds: int = SECONDS) -> list[memoryview]:
    """So much of the stream, as views on what a server's read buffer would hold."""
    stream = memoryview(b"".join(messages(chunk_size)[: seconds * (VIDEO + AUDIO)]))
    return [stream[start : start + read_bytes] for start in range(0, len(stream), read_bytes)]


def run(chunk_size: int, given: list[memoryview]) -> Cost:
    reader = ChunkReader(Limits())
    reader.feed(encode_message(set_chunk_size(chunk_size), chunk_stream_id=CSID_CONTROL, chunk_size=128))
    reader.read()
    reader.keep()
    count = 0
    begin = process_time()
    for data in given:
        reader.feed(data)
        count += len(reader.read())  # All that is complete, as there are no commands.
        reader.keep()
    spent = process_time() - begin
    return Cost(count, sum(map(len, given)) / spent / 1e6, spent / count * 1e6)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    inputs = {(size, name): reads(size, length) for size in CHUNK_SIZES for name, length in READS.items()}
    found: dict[tuple[int, str], list[Cost]] = {case: [] for case in inputs}
    for _ in range(rounds):  # In turns, so that noise meets all of them alike.
        for case, given in inputs.items():
            found[case].append(run(case[0], given))
    for (chunk_size, name), costs in found.items():
        speed, each = median(cost.mb_per_s for cost in costs), median(cost.us_per_message for cost in costs)
        print(f"chunk {chunk_size}, reads of {name}: {speed:.0f} MB/s, {each:.2f} us a message")


if __name__ == "__main__":
    main()
