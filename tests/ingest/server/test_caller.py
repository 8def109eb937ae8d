"""What it takes to read `connect`, which anybody may send, before anything is decided: never much."""

import sys
from types import FrameType
from typing import Any

import pytest

from ingest.credentials import scrub_text
from ingest.rtmp import LimitExceeded, ServerConnection, encode_message, events
from ingest.server.asgi import Caller, read_caller
from tests.ingest.rtmp.amplified import AMF0, VALUES, connect
from tests.ingest.rtmp.pair import SERVER_NONCE
from tests.rtmpdecode import HANDSHAKE_BYTES

MOST_CALLS = 60_000
"""Of functions, Python's own included: about 20 ms."""

MOST_LOOKS = 1.5
"""How often each byte that came is looked at for secrets: once, and some more in the address and what surrounds it."""

SIZES = [1_000, 8_000, 30_000, 62_000]
"""Bytes. `Limits.command_message_bytes` is 65,536."""

SECRETS = {
    "keys": "&key=",
    "keys in code": "&key=%41",
    "users": "://@",
    "beginnings of keys": "rk_",
    "fields": "?a=%41&",
    "slashes": "/a",
}


def read(value: bytes = b"", **properties: Any) -> tuple[int, Caller]:
    """How many calls it took, and what came of it. No text may have been looked through for each reference to it."""
    server = ServerConnection(nonce=SERVER_NONCE)
    server.receive_data(b"\x03" + bytes(HANDSHAKE_BYTES - 1))
    data = encode_message(connect(value, **properties), chunk_stream_id=3, chunk_size=128)
    calls = looked_at = 0

    def called(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls, looked_at
        calls += event in ("call", "c_call")
        if event == "call" and frame.f_code is scrub_text.__code__:
            looked_at += len(frame.f_locals["text"])

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        (event,) = server.receive_data(data)
        assert isinstance(event, events.ConnectRequested)
        caller = read_caller(event)
    finally:
        sys.setprofile(before)
    assert looked_at < MOST_LOOKS * len(data)
    return calls, caller


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", VALUES | AMF0)
def test_any_value_takes_bounded_work(name: str, size: int) -> None:
    value = b"\x11" + VALUES[name](size) if name in VALUES else AMF0[name](size)
    try:
        calls, _ = read(value)
    except LimitExceeded:
        return
    assert calls < MOST_CALLS


@pytest.mark.parametrize("property_name", ["app", "tcUrl", "swfUrl", "flashVer", "other"])
@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_any_text_takes_bounded_work(text: str, property_name: str) -> None:
    properties: dict[str, Any] = {property_name: f"rtmp://host/live?{text * (60_000 // len(text))}"}
    calls, caller = read(**properties)
    assert calls < MOST_CALLS
    assert "key=%41" not in repr(caller)
