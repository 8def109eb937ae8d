"""Messages by family: their exact bytes, and what is read from them."""

from typing import Any

import pytest

from ingest.rtmp import Limits, Message, UserControl, messages
from ingest.rtmp.amf import amf0
from ingest.rtmp.messages import control
from ingest.rtmp.messages.commands import Command, Data, decode_command, decode_data, encode_command, encode_data
from ingest.rtmp.messages.control import user_control

BUILT: list[tuple[str, Message, int, str]] = [
    ("set chunk size", control.set_chunk_size(60_000), 1, "0000ea60"),
    ("abort", control.abort(65_599), 2, "0001003f"),
    ("acknowledgement", control.acknowledgement(2**32 - 1), 3, "ffffffff"),
    ("window acknowledgement size", control.window_acknowledgement_size(2_500_000), 5, "002625a0"),
    (
        "set peer bandwidth",
        control.set_peer_bandwidth(2_500_000, control.BandwidthLimit.DYNAMIC),
        6,
        "002625a0 02",
    ),
    ("stream begin", user_control(UserControl.STREAM_BEGIN, 1), 4, "0000 00000001"),
    ("set buffer length", user_control(UserControl.SET_BUFFER_LENGTH, 1, 300), 4, "0003 00000001 0000012c"),
    ("buffer ready", user_control(UserControl.BUFFER_READY, 1), 4, "0020 00000001"),
]


@pytest.mark.parametrize(("name", "message", "type_id", "payload"), BUILT, ids=[row[0] for row in BUILT])
def test_control_messages(name: str, message: Message, type_id: int, payload: str) -> None:
    assert message == Message(type_id, 0, 0, bytes.fromhex(payload))


def test_media_messages() -> None:
    assert messages.audio_message(1, 2, b"a") == Message(8, 2, 1, b"a")
    assert messages.video_message(1, 2, b"v") == Message(9, 2, 1, b"v")


def test_a_command() -> None:
    message = encode_command(Command("play", 0, None, ["cam", -2]), 3)
    assert message == Message(
        20, 0, 3, bytes.fromhex("02 0004 706c6179 00 0000000000000000 05 02 0003 63616d 00 c000000000000000")
    )
    assert decode_command(message.payload, Limits()) == Command("play", 0.0, None, ["cam", -2.0])


def test_the_arguments_of_a_command() -> None:
    command = Command("x", 0, None, [1.0])
    assert (command.argument(0), command.argument(1), command.argument(1, "default")) == (1.0, None, "default")
    assert not command.answered
    assert Command("x", 0.5).answered


@pytest.mark.parametrize("prefix", [b"", b"\x00"])
def test_data(prefix: bytes) -> None:
    values: list[Any] = ["onMetaData", {"a": 1.0}]
    body = amf0.encode(*values)
    assert encode_data(1, 7, *values) == Message(18, 7, 1, body)
    expected = Data("onMetaData", [{"a": 1.0}], body)
    assert decode_data(prefix + body, Limits()) == expected
    kept = Data("onMetaData", [{"a": 1.0}], body, kept=True)
    assert decode_data(prefix + amf0.encode("@setDataFrame") + body, Limits()) == kept
