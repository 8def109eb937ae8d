"""What the fan-out in memory costs, without sockets: microseconds of CPU time per message and player.

    python -m bench.micro.live_fanout [players]

A stream of 5 Mbit/s: 73 messages a second, 30 of video (20.7 kB) and 43 of audio (371 B), a keyframe every 2 s.
`offer`: putting a message into all queues. `take`: emptying them again, after each message or after four. `deliver`: a
batch to players that have caught up.
"""

import sys
from statistics import median
from time import process_time

from ingest.contracts import PublishLimits
from ingest.live import LiveStream, Publisher, QueueLimits, Registry, Subscriber

ROUNDS = 7
SECONDS = 4
VIDEO, AUDIO = 30, 43
KEYFRAME = b"\x17\x01\x00\x00\x00" + bytes(20_700)
INTER = b"\x27\x01\x00\x00\x00" + bytes(20_700)
SOUND = b"\xaf\x01" + bytes(369)


def on_air() -> LiveStream:
    limits = PublishLimits(
        max_kbps=None,
        over_limit="warn",
        idle_timeout_s=10,
        first_media_timeout_s=20,
        target_kbps=None,
        expect_audio=True,
        expect_video=True,
    )
    registry = Registry("bench", wake=lambda stream, is_urgent: None)
    stream = registry.get_or_create("live/bench", {"stream": 1, "key": None})
    stream.start(Publisher("bench", "127.0.0.1", "bench", {"stream": 1, "key": None}, limits, 0.0), 0.0)
    return stream


def run(players: int, messages_per_flush: int) -> tuple[float, float]:
    """CPU microseconds per message: to offer it to all players, and to take it again for all."""
    stream = on_air()
    dirty: list[Subscriber] = []
    for _ in range(players):
        stream.subscribe(Subscriber(1, QueueLimits(), dirty.append), 0.0)
    offered = taken = 0.0
    sent = 0
    for second in range(SECONDS):
        for number in range(VIDEO + AUDIO):
            now = second + number / (VIDEO + AUDIO)
            begin = process_time()
            if number < VIDEO:
                stream.video(int(now * 1000), KEYFRAME if number == 0 and second % 2 == 0 else INTER, now)
            else:
                stream.audio(int(now * 1000), SOUND, now)
            stream.deliver()
            middle = process_time()
            offered += middle - begin
            sent += 1
            if sent % messages_per_flush == 0:
                for subscriber in dirty:
                    subscriber.take()
                dirty.clear()
                taken += process_time() - middle
    return offered / sent * 1e6, taken / sent * 1e6


def deliver(players: int, messages_per_flush: int) -> float:
    """CPU microseconds per flush: to give players that have caught up what came."""
    stream = on_air()
    stream.video(0, KEYFRAME, 0.0)
    for _ in range(players):
        subscriber = Subscriber(1, QueueLimits(), lambda _: None, write=bool)
        stream.subscribe(subscriber, 0.0)
        subscriber.take()
        stream.catch_up(subscriber)
    spent, flushes = 0.0, SECONDS * (VIDEO + AUDIO) // messages_per_flush
    for flush in range(flushes):
        for number in range(messages_per_flush):
            now = (flush * messages_per_flush + number + 1) / (VIDEO + AUDIO)
            stream.video(int(now * 1000), INTER, now)
        begin = process_time()
        stream.deliver()
        spent += process_time() - begin
    return spent / flushes * 1e6


def main() -> None:
    players = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    alone = median(run(0, 1)[0] for _ in range(ROUNDS))
    print(f"a message without players: {alone:.2f} us")
    for per_flush in (1, 4):
        rounds = [run(players, per_flush) for _ in range(ROUNDS)]
        offer = (median(offered for offered, _ in rounds) - alone) / players
        take = median(taken for _, taken in rounds) / players
        given = median(deliver(players, per_flush) for _ in range(ROUNDS)) / players
        print(f"{players} players, {per_flush} messages a flush: offer {offer:.3f} us, take {take:.3f} us each", end="")
        print(f"; deliver {given:.3f} us a flush")


if __name__ == "__main__":
    main()
