"""The vectors of messages, all families alike: read, written, cut anywhere, and on the wire byte by byte."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from ingest.rtmp import Limits, Message, RemoteProtocolError
from ingest.rtmp.amf import amf0
from ingest.rtmp.messages import control
from ingest.rtmp.messages.commands import Command, Data, decode_command, decode_data, encode_command, encode_data
from ingest.rtmp.messages.control import UserControl, read_user_control, user_control
from tests.pure.rtmp.messages.vectors import COMMANDS, CONTROL, DATA, ONE_WAY, REFUSED, Vector
from tests.pure.rtmp.replay import in_pieces, read_chunks
from tests.pure.rtmp.wire import Sent, chunked, ids

LIMITS = Limits()
BOTH_WAYS = [*CONTROL, *COMMANDS, *DATA]


class Family(NamedTuple):
    """How messages of a type are read and written. `content` is as `Vector` has it."""

    read: Callable[[bytes], Any]
    write: Callable[[Any], Message]


def read_event_and_values(payload: bytes) -> tuple[Any, ...]:
    event, values = read_user_control(payload)
    return (event, *values)


def read_data(payload: bytes) -> list[Any]:
    data = decode_data(payload, LIMITS)
    return [data.name, *data.values]


FAMILIES = {
    1: Family(control.read_number, control.set_chunk_size),
    3: Family(control.read_number, control.acknowledgement),
    4: Family(read_event_and_values, lambda content: user_control(*content)),
    5: Family(control.read_number, control.window_acknowledgement_size),
    6: Family(control.read_peer_bandwidth, lambda content: control.set_peer_bandwidth(*content)),
    15: Family(read_data, lambda content: encode_data(0, 0, *content, amf3=True)),
    17: Family(lambda payload: decode_command(payload, LIMITS), lambda content: encode_command(content, amf3=True)),
    18: Family(read_data, lambda content: encode_data(0, 0, *content)),
    20: Family(lambda payload: decode_command(payload, LIMITS), encode_command),
}


@pytest.mark.parametrize("vector", BOTH_WAYS + ONE_WAY, ids=ids(BOTH_WAYS + ONE_WAY))
def test_message_vectors_are_read(vector: Vector) -> None:
    assert FAMILIES[vector.type_id].read(vector.payload) == vector.content


@pytest.mark.parametrize("vector", BOTH_WAYS, ids=ids(BOTH_WAYS))
def test_message_vectors_are_written(vector: Vector) -> None:
    assert FAMILIES[vector.type_id].write(vector.content) == Message(vector.type_id, 0, 0, vector.payload)


@pytest.mark.parametrize(("name", "type_id", "payload"), REFUSED, ids=ids(REFUSED))
def test_malformed_messages_are_refused(name: str, type_id: int, payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        FAMILIES[type_id].read(payload)


@pytest.mark.parametrize("vector", BOTH_WAYS + ONE_WAY, ids=ids(BOTH_WAYS + ONE_WAY))
def test_message_cut_anywhere_is_read_or_refused(vector: Vector) -> None:
    """A shorter message is another one, or none: what may be left out counts as said."""
    for end in range(len(vector.payload)):
        with suppress(RemoteProtocolError):
            FAMILIES[vector.type_id].read(vector.payload[:end])


SEEN_BY_CONNECTIONS = [vector for vector in BOTH_WAYS if vector.type_id != 1]
"""Set Chunk Size stays within the chunk reader, whose own vectors have it."""


@pytest.mark.parametrize("vector", SEEN_BY_CONNECTIONS, ids=ids(SEEN_BY_CONNECTIONS))
@pytest.mark.parametrize("size", [1, 1000])
def test_message_vectors_pass_through_chunks_in_any_pieces(vector: Vector, size: int) -> None:
    message = Sent(vector.type_id, 5, 1, vector.payload)
    assert read_chunks(in_pieces(chunked(message), size)) == ([message.raw], "")


def test_every_command_and_event_of_the_specification_has_its_vector() -> None:
    assert {vector.content.name for vector in COMMANDS} >= {
        "connect", "close", "createStream", "_result", "_error", "onStatus", "play", "play2", "deleteStream",
        "closeStream", "receiveAudio", "receiveVideo", "publish", "seek", "pause",
    }  # fmt: skip
    assert {vector.content[0] for vector in CONTROL if vector.type_id == 4} == set(UserControl)
    assert {vector.type_id for vector in BOTH_WAYS} == set(FAMILIES)


def test_encoded_command_has_the_given_message_stream() -> None:
    assert encode_command(Command("close", 0), 3).stream_id == 3


def test_command_has_argument_defaults_and_wants_an_answer_by_transaction() -> None:
    command = Command("x", 0, None, [1.0])
    assert (command.argument(0), command.argument(1), command.argument(1, "default")) == (1.0, None, "default")
    assert not command.answered
    assert Command("x", 0.5).answered


@pytest.mark.parametrize("prefix", [b"", b"\x00"])
def test_data_messages_are_encoded_and_decoded_with_set_data_frame(prefix: bytes) -> None:
    values: list[Any] = ["onMetaData", {"a": 1.0}]
    body = amf0.encode(*values)
    assert encode_data(1, 7, *values) == Message(18, 7, 1, body)
    for said, kept in ((b"", False), (amf0.encode("@setDataFrame"), True)):
        assert decode_data(prefix + said + body, Limits()) == Data("onMetaData", [{"a": 1.0}], body, kept=kept)
