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

    held_bytes: int = 2 * MIB
    """What has come for message streams whose publish or play awaits its decision: media count 160 bytes more each, all
    else 4 KiB. Over it the connection is not read from, no error. Nearly all clients wait for the answer; of others it
    holds 4.5 Mbit/s for 3.5 s, the longest that it usually takes."""

    unadmitted_held_bytes: int = 64 * KIB
    """`held_bytes` of a client that was not admitted to publish before."""

    acknowledged_bytes: int = 1 * KIB
    """A peer's smaller window is taken to mean this: no acknowledgement of 16 bytes for each byte. Real ones begin at
    some ten thousand."""

    calls: int = 256
    """Calls of the client's whose answers are awaited. The oldest are forgotten, no error: most servers never answer
    publish and play, and a relay goes on for long."""

    pending_calls: int = 32
    """Calls of the peer's, and getStreamLength, whose answers it awaits at once; further ones are refused, no error.
    Their arguments have the bounds of all commands, `command_message_bytes` and `command_amf_elements`."""

    call_result_bytes: int = 256 * KIB
    """Our answer to a call, which may quote what the peer sent; a longer one becomes `_error`."""

    procedure_name_characters: int = 256
    """The name of a procedure that the peer calls; those with a longer one are refused, no error."""

    message_streams: int = 32
    """Message streams (createStream) that exist at once on one connection; further ones are refused, no error.
    Multi-bitrate encoders use up to ten."""

    playlist_items: int = 256
    """Items of a message stream's playlist that wait for their turn; further ones are refused, no error."""

    messages_per_read: int = 1000
    """Messages but audio and video within the bytes of one call of `receive_data`; each counts once more for every 64
    bytes, as far as they may be AMF values. Of audio and video in aggregates, 16 count as one. Bounds the work and the
    answers that one read of 256 KiB can cause: about 50 ms. Encoders send under twenty."""

    stream_name_bytes: int = 1 * KIB
    """The name of a stream to publish or play, with key and parameters, in UTF-8. Longer ones are refused, no error.
    Tokens of signed addresses have some hundred."""

    control_messages_per_s: int = 2000
    """Protocol control, user control, commands, shared objects and unknown messages in a second, as a mean over some
    seconds; long ones count as in `messages_per_read`. The shell, which has a clock, holds peers to it: about 10 % of a
    core. A player that acknowledges each 250 kB, as librtmp does, sends 50 at 100 Mbit/s; a game of shared objects some
    hundred."""

    play_commands_per_s: int = 50
    """pause, seek, receiveAudio and receiveVideo in a second, as a mean over some seconds. Held by the shell: each may
    read a file anew. Players send a seek for each step of a slider that is dragged, thirty a second at most."""

    media_messages_per_s: int = 20_000
    """Messages of all kinds in a second, as a mean over some seconds; those within aggregates count too, and data like
    16 for each that it counts in `messages_per_read`. Held by the shell: about 10 % of a core. 32 audio tracks of Opus
    in 10 ms and 8 video tracks at 120 frames, each track in messages of its own, are 4,160; data of 200 bytes with each
    frame 7,680 more."""

    small_chunks_per_s: int = 64_000
    """Chunks that end no message, beyond one for each 128 bytes of a read, in a second, as a mean over some seconds;
    runs of one message's chunks count as one. Held by the shell: about 15 % of a core. Peers that keep to the
    specification (5.4.1: 128 bytes or more) have none of them, whatever their bitrate and however they interleave: at
    128 bytes, 50 Mbit/s are 49,000 chunks and none is counted. Those of 128 bytes cost a core at some 150 MB/s."""

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
    each time, once more for every 64 bytes, names of classes and members too; what is in AMF3 counts twice, as players
    get it in AMF0. An index of a two-hour film has about 8,000."""

    command_amf_elements: int = 2048
    """Values in one command or shared object message, as `amf_elements`: under 2 ms. Anybody may send commands; they
    have under fifty."""

    amf_string_bytes: int = 256 * KIB
    """One AMF string, long string, XML document (in UTF-8) or byte array. XMP metadata take some tens of KiB."""

    shared_object_events: int = 1024
    """Events in one shared object message, each property counted. A new user is sent all of an object's properties in
    one; lists of users, scores and chats have some tens."""

    shared_object_name_bytes: int = 1024
    """The name of a shared object or of a property, or a status code. Names like paths stay under 100."""

    fourccs: int = 64
    """FourCC codes in one list or map of `connect`; further ones are overlooked. Enhanced RTMP has twelve."""

    tracks_per_message: int = 32
    """Tracks in one audio or video message (Enhanced RTMP). Encoders send under ten. More make the message faulty,
    which is no error: it is relayed like any."""

    mod_ex_per_message: int = 8
    """Extensions before the packet type of one such message; there is one kind so far. More make it faulty."""


DEFAULT_LIMITS: Final = Limits()


def limits_for(media_message_bytes: int) -> Limits:
    """The defaults but for the longest audio, video or aggregate message, one of which may always be under way."""
    longer_by = media_message_bytes - DEFAULT_LIMITS.media_message_bytes
    return replace(
        DEFAULT_LIMITS,
        media_message_bytes=media_message_bytes,
        partial_bytes=DEFAULT_LIMITS.partial_bytes + longer_by,
    )


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
        held_bytes=min(limits.held_bytes, limits.unadmitted_held_bytes),
    )
