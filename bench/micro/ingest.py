"""What ingest costs in memory, without sockets: CPU time per message and per gigabyte, from bytes to the live stream.

    python -m bench.micro.ingest

The stream of `bench.micro.live_fanout`, at the chunk sizes that publishers use, each message in a read of its own, as
on a quiet machine. The socket, the wake-up of the event loop and the samples come on top.
"""

import struct
from statistics import median
from time import process_time

from bench.micro.live_fanout import AUDIO, INTER, KEYFRAME, SOUND, VIDEO, on_air
from ingest.rtmp import ClientConnection, Message, ServerConnection, encode_message, events
from ingest.rtmp.chunk_writer import CSID_AUDIO, CSID_CONTROL, CSID_VIDEO
from ingest.rtmp.messages import MessageType

ROUNDS = 7
SECONDS = 20
CHUNK_SIZES = (128, 4096, 60_000)
NONCE = bytes(1528)


def exchange(client: ClientConnection, server: ServerConnection) -> list[events.Event]:
    """Moves bytes both ways until nothing is left; returns what the server saw."""
    seen: list[events.Event] = []
    while (sent := client.data_to_send()) or (answer := server.data_to_send()):
        if sent:
            seen += server.receive_data(sent)
        else:
            client.receive_data(answer)
    return seen


def publishing() -> ServerConnection:
    """A server's connection on which message stream 1 publishes."""
    client, server = ClientConnection(nonce=NONCE), ServerConnection(nonce=NONCE)
    exchange(client, server)
    client.connect("live", "rtmp://127.0.0.1/live")
    for event in exchange(client, server):
        if isinstance(event, events.ConnectRequested):
            server.accept_connect(event.request_id)
    exchange(client, server)
    client.create_stream()
    exchange(client, server)
    client.publish(1, "bench")
    for event in exchange(client, server):
        if isinstance(event, events.PublishRequested):
            server.accept_publish(event.request_id, "bench", public_name="bench")
    exchange(client, server)
    return server


def messages(chunk_size: int) -> list[bytes]:
    """`SECONDS` of the stream, each message as its chunks."""
    found = []
    for number in range(SECONDS * (VIDEO + AUDIO)):
        second, place = divmod(number, VIDEO + AUDIO)
        timestamp = second * 1000 + place * 1000 // (VIDEO + AUDIO)
        if place < VIDEO:
            payload, type_id, csid = (
                KEYFRAME if place == 0 and second % 2 == 0 else INTER,
                MessageType.VIDEO,
                CSID_VIDEO,
            )
        else:
            payload, type_id, csid = SOUND, MessageType.AUDIO, CSID_AUDIO
        found.append(
            encode_message(Message(type_id, timestamp, 1, payload), chunk_stream_id=csid, chunk_size=chunk_size)
        )
    return found


def run(chunk_size: int) -> tuple[float, float]:
    """CPU microseconds per message, and CPU seconds per gigabyte."""
    server, stream = publishing(), on_air()
    size = Message(MessageType.SET_CHUNK_SIZE, 0, 0, struct.pack(">I", chunk_size))
    server.receive_data(encode_message(size, chunk_stream_id=CSID_CONTROL, chunk_size=128))
    reads = messages(chunk_size)
    begin = process_time()
    for number, read in enumerate(reads):
        now = number / (VIDEO + AUDIO)
        for event in server.receive_data(read):
            if type(event) is events.VideoReceived:
                stream.video(event.timestamp, event.payload, now)
            elif type(event) is events.AudioReceived:
                stream.audio(event.timestamp, event.payload, now)
    spent = process_time() - begin
    return spent / len(reads) * 1e6, spent / sum(map(len, reads)) * 1e9


def main() -> None:
    for chunk_size in CHUNK_SIZES:
        rounds = [run(chunk_size) for _ in range(ROUNDS)]
        each, gigabyte = median(each for each, _ in rounds), median(gigabyte for _, gigabyte in rounds)
        print(f"chunk {chunk_size}: {each:.1f} us a message, {gigabyte:.2f} CPU s per GB")


if __name__ == "__main__":
    main()
