"""What both ends do alike: acknowledgements, pings, chunk sizes, states; and that only protocol errors escape."""

import struct
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.rtmp import (
    LimitExceeded,
    LocalProtocolError,
    Message,
    RemoteProtocolError,
    ServerConnection,
    UserControl,
    events,
    status,
)
from ingest.rtmp.amf import UNDEFINED, amf0
from ingest.rtmp.handshake import HANDSHAKE_BYTES
from ingest.rtmp.messages import control
from ingest.rtmp.messages.control import user_control
from ingest.rtmp.states import PHASES, STREAM_STATES, Phase, Step, StreamState, StreamStep
from tests.pure.rtmp import wire
from tests.pure.rtmp.pair import SERVER_NONCE, ConnectionPair
from tests.pure.rtmp.replay import cut, outcome, serve
from tests.rtmpdecode import decode_stream

ACKNOWLEDGEMENT, USER_CONTROL, WINDOW = 3, 4, 5


def numbers(data: bytes | bytearray, type_id: int) -> list[int]:
    """The first number of each message of this type."""
    return [struct.unpack_from(">I", m.payload)[0] for m in decode_stream(bytes(data)) if m.type_id == type_id]


class TestAcknowledgements:
    def test_acknowledgements_follow_the_window_of_the_peer(self, publisher: ConnectionPair) -> None:
        publisher.client.send_window(10_000)
        for number in range(30):
            publisher.client.send_video(1, number, bytes(1000))
            publisher.run()
        sent = numbers(publisher.to_client, ACKNOWLEDGEMENT)
        assert len(sent) == 3
        assert all(later - earlier >= 10_000 for earlier, later in pairwise(sent))
        assert sent[-1] <= len(publisher.to_server) - HANDSHAKE_BYTES
        assert [event.sequence_number for event in publisher.take_client(events.AcknowledgementReceived)] == sent

    def test_acknowledgements_follow_our_own_window_if_the_peer_sent_none(self) -> None:
        pair = ConnectionPair(window_bytes=5_000)
        pair.publishing()
        pair.client.send_chunk_size(60_000)
        pair.client.send_video(1, 0, bytes(5_000))
        pair.run()
        assert numbers(pair.to_client, ACKNOWLEDGEMENT) == [len(pair.to_server) - HANDSHAKE_BYTES]

    def test_a_window_of_0_changes_nothing(self) -> None:
        pair = ConnectionPair(window_bytes=5_000).connected()
        pair.client.send_window(0)
        pair.client.send_window(0)
        pair.run()
        assert numbers(pair.to_client, ACKNOWLEDGEMENT) == []

    def test_acknowledgement_is_sent_at_most_once_per_read(self, pair: ConnectionPair) -> None:
        pair.client.send_window(1024)
        pair.run()
        before = len(numbers(pair.to_client, ACKNOWLEDGEMENT))
        for _ in range(100):
            pair.client.call("_checkbw")
        pair.run()
        assert len(numbers(pair.to_client, ACKNOWLEDGEMENT)) == before + 1

    def test_window_under_1024_bytes_counts_as_1024(self) -> None:
        pair = ConnectionPair(slice_bytes=1).connected()
        pair.client.send_window(1)
        pair.run()
        before = len(pair.to_server)
        for _ in range(100):
            pair.client.call("_checkbw")
        pair.run()
        sent = numbers(pair.to_client, ACKNOWLEDGEMENT)
        assert 0 < len(sent) <= 1 + (len(pair.to_server) - before) // 1024

    def test_the_sequence_number_wraps(self) -> None:
        assert control.acknowledgement(2**32 + 5).payload == struct.pack(">I", 5)

    def test_received_acknowledgement_is_reported(self, pair: ConnectionPair) -> None:
        pair.client.send_message(Message(3, 0, 0, b"\xff\xff\xff\xfe"))
        assert pair.take_server(events.AcknowledgementReceived) == [events.AcknowledgementReceived(0xFFFFFFFE)]


class TestPeerBandwidth:
    def test_changed_peer_bandwidth_is_answered_by_a_window_once(self, pair: ConnectionPair) -> None:
        assert numbers(pair.to_server, WINDOW) == [2_500_000]
        for size in (2_500_000, 100_000, 100_000, 0):
            pair.server.send_message(control.set_peer_bandwidth(size, control.BandwidthLimit.HARD))
            pair.run()
        assert numbers(pair.to_server, WINDOW) == [2_500_000, 100_000]

    def test_server_answers_peer_bandwidth_of_the_client_by_a_window(self, pair: ConnectionPair) -> None:
        pair.client.send_message(control.set_peer_bandwidth(70_000, control.BandwidthLimit.SOFT))
        pair.run()
        assert numbers(pair.to_client, WINDOW) == [2_500_000, 70_000]


class TestPing:
    def test_ping_is_answered_by_each_end(self, pair: ConnectionPair) -> None:
        pair.server.send_ping(0xFFFFFFFF)
        pair.client.send_ping(5)
        assert pair.take_server(events.PingAnswered) == [events.PingAnswered(0xFFFFFFFF)]
        assert pair.take_client(events.PingAnswered) == [events.PingAnswered(5)]

    def test_ping_request_has_the_specified_bytes(self, pair: ConnectionPair) -> None:
        at = len(pair.to_client)
        pair.server.send_ping(0x01020304)
        pair.run()
        assert pair.to_client[at:] == bytes.fromhex("02 000000 000006 04 00000000 0006 01020304")


class TestUserControl:
    @pytest.mark.parametrize("event", [each for each in UserControl if each.name.startswith(("STREAM", "BUFFER"))])
    def test_the_client_reports_what_the_server_sends(self, pair: ConnectionPair, event: UserControl) -> None:
        pair.server.send_user_control(event, 7)
        begin = events.UserControlReceived(UserControl.STREAM_BEGIN, (0,))
        assert pair.take_client(events.UserControlReceived) == [begin, events.UserControlReceived(event, (7,))]

    def test_swf_verification_request_and_response_are_reported(self, pair: ConnectionPair) -> None:
        answer = (0x0101, 1234, 1234, bytes(range(32)))
        pair.server.send_user_control(UserControl.SWF_VERIFY_REQUEST)
        pair.server.send_message(Message(4, 0, 0, bytes.fromhex("001a01")))
        pair.client.send_user_control(UserControl.SWF_VERIFY_RESPONSE, *answer)
        asked = events.UserControlReceived(UserControl.SWF_VERIFY_REQUEST, ())
        assert pair.take_client(events.UserControlReceived)[1:] == [asked, asked]
        answered = events.UserControlReceived(UserControl.SWF_VERIFY_RESPONSE, answer)
        assert pair.take_server(events.UserControlReceived) == [answered]

    def test_values_are_taken_modulo_2_to_the_32(self) -> None:
        assert user_control(UserControl.STREAM_IS_RECORDED, -1).payload == bytes.fromhex("0004 ffffffff")


@pytest.mark.parametrize(("type_id", "size"), [(3, 3), (5, 3), (6, 0)])
def test_too_short_protocol_control_ends_the_connection(pair: ConnectionPair, type_id: int, size: int) -> None:
    pair.ended_by(RemoteProtocolError, Message(type_id, 0, 0, bytes(size)))


def test_longer_control_messages_are_taken(pair: ConnectionPair) -> None:
    pair.client.send_message(Message(5, 0, 0, bytes.fromhex("0000ffff 00")))
    pair.client.send_message(Message(4, 0, 0, bytes.fromhex("0006 00000001 0000")))
    pair.run()
    assert numbers(pair.to_server, 4)[-1] >> 16 == UserControl.PING_REQUEST


class TestOneRead:
    """What one read of 256 KiB can cause is bounded, whatever it holds."""

    READ_BYTES = 256 * 1024

    def repeat(self, type_id: int, stream_id: int, payload: bytes) -> bytes:
        """The message as often as it goes into one read: one whole header, then type 3 chunks."""
        again = wire.type3(7, payload)
        first = wire.type0(7, 0, type_id, stream_id, payload)
        return first + again * ((self.READ_BYTES - len(first)) // len(again))

    @pytest.mark.parametrize(
        ("type_id", "stream_id", "payload"),
        [
            (77, 0, b""),
            (22, 1, b""),
            (3, 0, bytes(4)),
            (4, 0, struct.pack(">HI", UserControl.PING_REQUEST, 1)),
            (4, 0, struct.pack(">HI", UserControl.PING_RESPONSE, 1)),
            (5, 0, bytes(4)),
            (6, 0, bytes(5)),
            (18, 1, amf0.encode("onTextData")),
            (20, 0, amf0.encode("_checkbw", 1.0)),
            (1, 0, struct.pack(">I", 128)),
            (2, 0, struct.pack(">I", 7)),
            (8, 1, b""),
            (9, 1, b""),
            (8, 99, b""),
        ],
    )
    def test_endless_small_messages_in_one_read_exceed_the_limit(
        self, publisher: ConnectionPair, type_id: int, stream_id: int, payload: bytes
    ) -> None:
        publisher.client.data_to_send()
        with pytest.raises(LimitExceeded):
            publisher.server.receive_data(self.repeat(type_id, stream_id, payload))
        assert len(publisher.server.data_to_send()) < 200_000
        happened = [event for event in publisher.server.events() if type(event) is not events.AudioReceived]
        assert len([event for event in happened if type(event) is not events.VideoReceived]) <= 1_000

    def test_endless_one_byte_chunks_in_one_read_exceed_the_limit(self, publisher: ConnectionPair) -> None:
        opened = wire.set_chunk_size(1, 60_000) + b"".join(
            wire.type0(csid, 0, 9, 1, b"x", 200_000) for csid in (10, 11)
        )
        turn = wire.type3(10, b"x") + wire.type3(11, b"x")
        with pytest.raises(LimitExceeded):
            publisher.server.receive_data(opened + turn * (self.READ_BYTES // len(turn)))

    def test_values_of_all_commands_in_one_read_count_against_the_limit(self, pair: ConnectionPair) -> None:
        command = amf0.encode("_checkbw", 1.0, *[None] * 2_000)
        with pytest.raises(LimitExceeded):
            pair.server.receive_data(b"".join(wire.type0(3, 0, 20, 0, command) for _ in range(100)))

    def test_full_read_of_small_encoder_messages_is_accepted(self, publisher: ConnectionPair) -> None:
        """A read full of small media, timed data and acknowledgements."""
        sound, text, seen = wire.type0(4, 5, 8, 1, bytes(90)), amf0.encode("onTextData", "x" * 40), bytes(4)
        rest = wire.type0(5, 5, 18, 1, text) + wire.type0(2, 0, 3, 0, seen)
        data = (sound * 20 + rest) * (self.READ_BYTES // (20 * len(sound) + len(rest)))
        found = publisher.server.receive_data(data)
        assert len([event for event in found if isinstance(event, events.AudioReceived)]) == data.count(sound)


@pytest.mark.parametrize("event", [UserControl.PING_REQUEST, UserControl.SET_BUFFER_LENGTH, 99])
def test_user_control_before_connect_has_no_effect(event: int) -> None:
    server = ServerConnection(nonce=SERVER_NONCE)
    server.receive_data(HANDSHAKE)
    server.data_to_send()
    assert server.receive_data(wire.type0(2, 0, 4, 0, struct.pack(">HII", event, 1, 2))) == []
    assert server.data_to_send() == b""


def test_chunk_size_of_either_side_may_change_at_any_time(publisher: ConnectionPair) -> None:
    payload = Random(5).randbytes(10_000)
    for size in (1, 4096, 128, 60_000, 3):
        publisher.client.send_chunk_size(size)
        publisher.client.send_video(1, size, payload)
        publisher.server.send_chunk_size(size)
        publisher.server.send_message(Message(9, size, 1, payload))
    assert [event.payload for event in publisher.take_server(events.VideoReceived)] == [payload] * 5
    assert [event.payload for event in publisher.take_client(events.VideoReceived)] == [payload] * 5


def test_a_closed_connection_drops_what_it_is_given(pair: ConnectionPair) -> None:
    pair.ended_by(RemoteProtocolError, Message(3, 0, 0, b""))
    assert pair.server.receive_data(b"anything") == []
    assert pair.server.events() == []


def test_data_to_send_is_returned_once() -> None:
    pair = ConnectionPair()
    assert len(pair.client.data_to_send()) == 1537
    assert pair.client.data_to_send() == b""


# --- Nothing but RemoteProtocolError escapes ---


HANDSHAKE = b"\x03" + bytes(3072)

scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.floats(), st.text(max_size=6), st.sampled_from([1.0, 2.0, "cam", UNDEFINED])
)
arguments: st.SearchStrategy[Any] = st.one_of(
    scalars, st.lists(scalars, max_size=3), st.dictionaries(st.text(max_size=5), scalars, max_size=3)
)
procedures = st.one_of(st.sampled_from(sorted(ServerConnection.commands)), st.text(max_size=8))
stream_ids = st.sampled_from([0, 1, 1, 2, 0xFFFFFFFF])
calls = st.builds(
    lambda name, rest, stream_id: Message(20, 0, stream_id, amf0.encode(name, *rest)),
    procedures.filter(lambda name: name != "connect"),
    st.one_of(st.lists(arguments, max_size=6), st.tuples(st.sampled_from([0, 2]), st.none(), arguments)),
    stream_ids,
)
others = st.builds(
    Message,
    st.sampled_from([0, 3, 4, 5, 6, 8, 9, 15, 16, 17, 18, 19, 20, 22, 77]),
    st.integers(0, 2**32 - 1),
    stream_ids,
    st.binary(max_size=40),
)


@settings(max_examples=200)
@given(st.lists(st.one_of(calls, calls, others), max_size=12), st.lists(st.integers(1, 200), max_size=12))
def test_any_messages_have_the_same_outcome_in_any_split(messages: list[Message], sizes: list[int]) -> None:
    pair = ConnectionPair()
    pair.run()
    pair.client.connect("live", "rtmp://127.0.0.1/live")
    for message in messages:
        pair.client.send_message(message)
    data = HANDSHAKE + pair.client.data_to_send()
    assert outcome(serve([data])) == outcome(serve(cut(data, [3073, *sizes])))


def test_local_mistakes_leave_the_connection_usable(pair: ConnectionPair) -> None:
    with pytest.raises(LocalProtocolError):
        pair.server.send_status(1, "status", "x", "\ud800")
    with pytest.raises(LocalProtocolError):
        pair.client.connect("again", "")
    assert pair.create_stream() == 1


def test_every_phase_is_reached_and_can_be_closed() -> None:
    assert set(PHASES.values()) == set(Phase) - {Phase.HANDSHAKE}
    assert all(PHASES[phase, Step.CLOSE] is Phase.CLOSED for phase in Phase)


def test_a_closed_connection_stays_closed() -> None:
    assert {step for phase, step in PHASES if phase is Phase.CLOSED} == {Step.CLOSE}


def test_every_stream_state_is_reached_and_ends_in_idle() -> None:
    def reached(begin: StreamState) -> set[StreamState]:
        found = {begin}
        for _ in StreamState:
            found |= {after for (before, _), after in STREAM_STATES.items() if before in found}
        return found

    assert reached(StreamState.IDLE) == set(StreamState)
    assert all(StreamState.IDLE in reached(state) for state in StreamState)


def test_requested_stream_states_have_no_steps_but_decisions_skip_and_stop() -> None:
    decisions = {StreamStep.ACCEPT, StreamStep.REJECT}
    for asked, other in (
        (StreamState.PUBLISH_REQUESTED, set()),
        (StreamState.PLAY_REQUESTED, {StreamStep.SKIP}),
        (StreamState.SWITCH_REQUESTED, {StreamStep.STOP}),
    ):
        assert {step for state, step in STREAM_STATES if state is asked} == decisions | other


def test_status_level_follows_from_the_status_code() -> None:
    assert status.level_of("NetStream.Publish.BadName") == "error"
    assert status.level_of("NetStream.Play.InsufficientBW") == "warning"
    assert status.level_of("NetStream.Play.Start") == status.level_of("Application.Own") == "status"


def test_failures_are_errors() -> None:
    for code in (value for name, value in vars(status).items() if name.isupper() and isinstance(value, str)):
        failed = code.rsplit(".", 1)[1] in {"Failed", "Rejected", "BadName", "StreamNotFound"}
        assert (status.level_of(code) == "error") >= failed, code
