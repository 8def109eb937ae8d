"""Limits that a fuzzer gets to. Those of one read are out of its reach, as they hold by how bytes happen to be cut."""

from typing import Final

from ingest.rtmp import Limits

LIMITS: Final = Limits(
    media_message_bytes=1500,
    command_message_bytes=1024,
    data_message_bytes=1200,
    other_message_bytes=600,
    chunk_streams=8,
    partial_bytes=2500,
    unadmitted_chunk_streams=6,
    unadmitted_partial_bytes=2000,
    held_bytes=10_000,
    message_streams=4,
    stream_name_bytes=100,
    messages_per_read=1_000_000,
    chunks_per_read=1_000_000,
    ignored_messages=20,
    amf_depth=8,
    amf_elements=512,
    command_amf_elements=256,
    amf_string_bytes=1000,
    tracks_per_message=4,
    mod_ex_per_message=3,
)
