"""Messages by family: protocol control, user control, commands, data, media, shared objects, aggregates."""

from ingest.rtmp.messages.message import Message, MessageType, RawMessage

__all__ = ["Message", "MessageType", "RawMessage"]
