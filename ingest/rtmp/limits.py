"""Every size that a peer controls has its bound here, with the reason for the default."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Going over any of these raises `LimitExceeded`, unless the field says otherwise."""

    media_message_bytes: int = 10 * MIB
    """Audio, video and aggregate messages. A key frame of 4K video passes 1 MiB, the cap that some servers have."""

    command_message_bytes: int = 64 * KIB
    """Commands and shared objects. The longest that encoders send, connect with all its properties, is under 1 KiB."""

    data_message_bytes: int = 1 * MIB
    """Data messages. onMetaData of a re-streamed file may carry an index with some thousand entries."""

    control_message_bytes: int = 128
    """Protocol control and user control. The longest known, an SWF verification response, has 44 bytes."""

    other_message_bytes: int = 1 * MIB
    """Message types that nothing here understands: they are reported, hence have to be collected."""

    chunk_streams: int = 64
    """Chunk stream ids in use on one connection. Clients use up to six; 32 has proved too low for several streams."""

    partial_bytes: int = 16 * MIB
    """What is collected of unfinished messages, all chunk streams together: one large message and some small ones."""

    unadmitted_chunk_streams: int = 16
    """`chunk_streams` of a client that was not admitted to publish, so anybody's: twice what clients use."""

    unadmitted_partial_bytes: int = 128 * KIB
    """`partial_bytes` of such a client: two of the longest commands. All of its messages are bounded like commands."""

    chunk_size_bytes: int = 0xFFFFFF
    """Peers may announce more and are taken to mean this, as no message is longer (section 5.4.1). Never an error."""

    message_streams: int = 32
    """Message streams (createStream) that exist at once on one connection. Multi-bitrate encoders use up to ten."""

    messages_per_read: int = 1000
    """Messages but audio and video within the bytes of one call of `receive_data`; each counts once more for every 64
    bytes, as far as they may be AMF values. Bounds the work and the answers that one read of 256 KiB can cause: about
    50 ms. Encoders send under twenty."""

    chunks_per_read: int = 16_384
    """Chunks within the same, runs of one message's chunks counted as one: 16 bytes each in a read of 256 KiB. The
    smallest that clients send, Speex in chunks of its own, have 40."""

    ignored_messages: int = 20_000
    """Media and data messages on streams that don't publish, while none does. Some follow each unpublish; no client
    goes on for long."""

    amf_depth: int = 32
    """Nesting of objects and arrays in an AMF value. Real ones stay under five."""

    amf_elements: int = 16_384
    """Values in one data message: about 10 ms of decoding, 20 ms if all are objects. What references stand for counts
    each time, once more for every 64 bytes. An index of a two-hour film has about 8,000."""

    command_amf_elements: int = 2048
    """Values in one command, as `amf_elements`: under 2 ms. Anybody may send commands; they have under fifty."""

    amf_string_bytes: int = 256 * KIB
    """One AMF string, long string, XML document (in UTF-8) or byte array. XMP metadata take some tens of KiB."""

    tracks_per_message: int = 32
    """Tracks in one audio or video message (Enhanced RTMP). Encoders send under ten. More make the message faulty,
    which is no error: it is relayed like any."""

    mod_ex_per_message: int = 8
    """Extensions before the packet type of one such message; there is one kind so far. More make it faulty."""


DEFAULT_LIMITS: Final = Limits()


@lru_cache(maxsize=16)
def unadmitted(limits: Limits) -> Limits:
    """What holds for chunks until a client is admitted to publish: players and strangers have nothing long to send."""
    longest = limits.command_message_bytes
    return replace(
        limits,
        media_message_bytes=min(limits.media_message_bytes, longest),
        data_message_bytes=min(limits.data_message_bytes, longest),
        other_message_bytes=min(limits.other_message_bytes, longest),
        chunk_streams=min(limits.chunk_streams, limits.unadmitted_chunk_streams),
        partial_bytes=min(limits.partial_bytes, limits.unadmitted_partial_bytes),
    )
