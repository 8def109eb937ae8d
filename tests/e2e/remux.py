"""PyAV as an encoder: `python -m tests.e2e.remux CLIP URL`.

A process of its own: PyAV holds Python's lock while it opens an output, and nothing else of the process runs meanwhile.
"""

import sys
import time

import av


def publish(clip: str, url: str) -> None:
    """Remux at the clip's pace, as an encoder would send."""
    with av.open(clip) as source, av.open(url, "w", format="flv") as target:
        streams = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        start = time.monotonic()
        for packet in source.demux():
            if packet.dts is None:
                continue
            ahead = float(packet.dts * packet.time_base) - (time.monotonic() - start)
            if ahead > 0:
                time.sleep(ahead)  # The pace of the media itself, not a wait for a condition.
            packet.stream = streams[packet.stream.index]
            target.mux(packet)


if __name__ == "__main__":
    publish(*sys.argv[1:])
