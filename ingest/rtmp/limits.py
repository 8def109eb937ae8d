"""Every size that a peer controls has its bound here, with the reason for the default."""

from dataclasses import dataclass
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

    chunk_size_bytes: int = 0xFFFFFF
    """Peers may announce more and are taken to mean this, as no message is longer (section 5.4.1). Never an error."""

    message_streams: int = 32
    """Message streams (createStream) that exist at once on one connection. Multi-bitrate encoders use up to ten."""

    commands_per_read: int = 512
    """Commands within the bytes given by one call of `receive_data`: bounds the work that one read can cause."""

    ignored_messages: int = 20_000
    """Media and data messages on streams that don't publish. Some follow each unpublish; no client goes on for long."""

    amf_depth: int = 32
    """Nesting of objects and arrays in an AMF value. Real ones stay under five."""

    amf_elements: int = 65_536
    """Values in one AMF message, with what references stand for counted each time: about 30 ms of decoding."""

    amf_string_bytes: int = 256 * KIB
    """One AMF string, long string or XML document, in UTF-8. XMP metadata take some tens of KiB."""


DEFAULT_LIMITS: Final = Limits()
