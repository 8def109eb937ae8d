"""Audio and video messages (RTMP 1.0, sections 7.1.4 and 7.1.5): the payload is the body of an FLV tag."""

from ingest.rtmp.messages.message import Message, MessageType


def audio(stream_id: int, timestamp: int, payload: bytes) -> Message:
    return Message(MessageType.AUDIO, timestamp, stream_id, payload)


def video(stream_id: int, timestamp: int, payload: bytes) -> Message:
    return Message(MessageType.VIDEO, timestamp, stream_id, payload)
