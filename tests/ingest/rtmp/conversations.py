"""hypothesis strategies for what a sender may put on the wire: any messages, by any headers, interleaved anyhow."""

from hypothesis import strategies as st

from tests.ingest.rtmp.wire import Sender, Sent, abort, set_chunk_size

Raw = tuple[int, int, int, bytes]

timestamps = st.one_of(
    st.integers(0, 2**32 - 1),
    st.integers(0, 100),
    st.integers(0xFFFFFE, 0x1000001),
    st.integers(2**32 - 5, 2**32 - 1),
)
csids = st.sampled_from([3, 4, 63, 64, 319, 320, 65599])
sizes = st.lists(st.integers(1, 700), max_size=30)
"""Of the pieces that the bytes are cut into."""
CHUNK_SIZES = st.sampled_from([1, 2, 100, 128, 129, 4096])

# Payload and extended timestamps can't be mistaken for one another: only a sender that doesn't repeat them would mind.
ODD = b"\xc4\xee\xef"
payloads = st.builds(lambda size, byte: bytes([byte]) * size, st.integers(0, 600), st.sampled_from(ODD))
odd_messages = st.builds(
    Sent,
    st.sampled_from([8, 9, 18, 20, 22, 99]),
    timestamps.filter(lambda time: time >> 24 not in ODD),
    st.sampled_from([0, 1, 2, 0xFFFFFFFF]),
    payloads,
)


@st.composite
def conversations(
    draw: st.DrawFn, messages: st.SearchStrategy[Sent] = odd_messages, *, repeats: bool = False, most: int = 25
) -> tuple[bytes, list[Raw]]:
    """Bytes of a sender that has some chunk streams, and the messages in the order in which they are complete.

    `repeats`: extended timestamps are always repeated, so that payloads may be anything. The bytes begin with a Set
    Chunk Size of less than any chunk size that may be in force, so they can follow others.
    """
    used = draw(st.lists(csids, min_size=1, unique=True))
    senders = {csid: Sender(csid, repeats or draw(st.booleans())) for csid in used}
    chunk_size = 128
    data = set_chunk_size(chunk_size)
    complete: list[Raw] = []
    for _ in range(draw(st.integers(1, most))):
        if draw(st.integers(0, 9)) == 0:
            size = draw(CHUNK_SIZES)
            data += set_chunk_size(size, chunk_size)
            chunk_size = size
        sender = senders[draw(st.sampled_from(sorted(senders)))]
        if sender.rest and chunk_size >= 4 and draw(st.integers(0, 9)) == 0:
            data += abort(sender.csid)
            sender.rest = b""
            continue
        if sender.rest:
            kind = draw(st.sampled_from([3, 3, 3, 3, 2, 1, 0]))
            data += sender.proceed(chunk_size) if kind == 3 else sender.repeat(kind, chunk_size)
        else:
            message = draw(messages)
            if sender.last and draw(st.booleans()):
                # As the one before: so that the shorter headers come up.
                later = (sender.last.timestamp + draw(st.sampled_from([0, 20, sender.step]))) % 2**32
                if later >> 24 not in ODD:
                    message = Sent(sender.last.type_id, later, sender.last.stream_id, sender.last.payload)
            kinds = sender.kinds(message)
            if sender.last and (message.timestamp - sender.last.timestamp) % 2**32 >> 24 in ODD:
                kinds = [0]
            data += sender.begin(message, draw(st.sampled_from(kinds)), chunk_size)
        if not sender.rest and sender.last:
            complete.append(sender.last.raw)
    for sender in senders.values():
        while sender.rest:
            data += sender.proceed(chunk_size)
            if not sender.rest and sender.last:
                complete.append(sender.last.raw)
    return data, complete
