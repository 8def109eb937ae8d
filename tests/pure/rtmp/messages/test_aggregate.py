"""Aggregates: their layout, timestamps, cut tails; and what both ends of a connection make of them."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import LimitExceeded, Limits, Message, events
from ingest.rtmp.amf import amf0
from ingest.rtmp.messages import AggregatePart, decode_aggregate
from tests.pure.flv.files import tag
from tests.pure.rtmp import wire
from tests.pure.rtmp.pair import ConnectionPair, Sink
from tests.rtmp_client import encode_aggregate

AUDIO, VIDEO, DATA, DATA_AMF3, AGGREGATE = 8, 9, 18, 15, 22
MANY = 1000


PARTS = [
    AggregatePart(AUDIO, 10, b"\xaf\x01"),
    AggregatePart(VIDEO, 12, b""),
    AggregatePart(DATA, 2**32 - 1, b"\x02\x00\x01x"),
]
BODY = tag(AUDIO, 10, b"\xaf\x01") + tag(VIDEO, 12, b"") + tag(DATA, 2**32 - 1, b"\x02\x00\x01x")


class TestLayout:
    def test_aggregate_is_decoded_into_its_parts(self) -> None:
        assert decode_aggregate(10, BODY, MANY) == (PARTS, b"")

    def test_aggregate_bytes_with_a_large_timestamp_are_decoded_as_specified(self) -> None:
        data = bytes.fromhex("08 000002 000001 0f 000000 af01 0000000d")
        assert decode_aggregate(0x0F000001, data, MANY) == ([AggregatePart(AUDIO, 0x0F000001, b"\xaf\x01")], b"")

    @pytest.mark.parametrize(
        ("timestamp", "expected"),
        [
            (10, [10, 12, 2**32 - 1]),
            (1010, [1010, 1012, 999]),
            (0, [0, 2, 2**32 - 11]),
            (2**32 - 1, [2**32 - 1, 1, 2**32 - 12]),
        ],
    )
    def test_timestamps_count_from_that_of_the_aggregate(self, timestamp: int, expected: list[int]) -> None:
        parts, _ = decode_aggregate(timestamp, BODY, MANY)
        assert [part.timestamp for part in parts] == expected

    def test_stream_ids_and_back_pointers_are_not_looked_at(self) -> None:
        first = tag(AUDIO, 0, b"a", before=0xFFFFFFFF)
        data = first[:8] + b"\xab\xcd\xef" + first[11:] + tag(VIDEO, 0, b"v")
        assert decode_aggregate(0, data, MANY)[0] == [AggregatePart(AUDIO, 0, b"a"), AggregatePart(VIDEO, 0, b"v")]

    @pytest.mark.parametrize("end", range(len(BODY) + 1))
    def test_cut_aggregate_gives_its_whole_parts_and_the_rest(self, end: int) -> None:
        ends = [13, 13 + 4 + 11, 13 + 4 + 11 + 4 + 15]
        whole = sum(end >= each for each in ends)
        parts, rest = decode_aggregate(10, BODY[:end], MANY)
        assert parts == PARTS[:whole]
        assert rest == BODY[ends[whole - 1] + 4 if whole else 0 : end]

    def test_aggregate_with_too_many_parts_is_refused(self) -> None:
        assert len(decode_aggregate(0, BODY, 3)[0]) == 3
        with pytest.raises(LimitExceeded):
            decode_aggregate(0, BODY, 2)

    @given(
        st.lists(
            st.builds(AggregatePart, st.integers(0, 255), st.integers(0, 2**32 - 1), st.binary(max_size=40)), min_size=1
        )
    )
    def test_any_parts_round_trip(self, parts: list[AggregatePart]) -> None:
        message = encode_aggregate(5, parts)
        assert decode_aggregate(message.timestamp, message.payload, MANY) == (parts, b"")

    @given(st.integers(0, 2**32 - 1), st.binary(max_size=200))
    def test_any_bytes_are_decoded_into_parts_and_a_rest(self, timestamp: int, data: bytes) -> None:
        parts, rest = decode_aggregate(timestamp, data, MANY)
        taken = sum(15 + len(part.payload) for part in parts)
        assert data[taken:] == rest


METADATA = amf0.encode("onMetaData", {"width": 1.0})
SENT = [
    AggregatePart(DATA, 90, METADATA),
    AggregatePart(AUDIO, 90, b"a"),
    AggregatePart(VIDEO, 100, b"v"),
    AggregatePart(AUDIO, 110, b"b"),
]


def arrived(happened: list[Any]) -> list[tuple[type, int, int, bytes]]:
    kinds = (events.AudioReceived, events.VideoReceived, events.DataReceived)
    return [
        (type(event), event.stream_id, event.timestamp, event.payload)
        for event in happened
        if isinstance(event, kinds) and getattr(event, "name", "") != "|RtmpSampleAccess"
    ]


def expected(shift: int = 0) -> list[tuple[type, int, int, bytes]]:
    kinds = {AUDIO: events.AudioReceived, VIDEO: events.VideoReceived, DATA: events.DataReceived}
    return [(kinds[part.type_id], 1, part.timestamp + shift, part.payload) for part in SENT]


class TestConnection:
    @pytest.mark.parametrize("slice_bytes", [0, 1])
    def test_aggregate_from_a_publisher_arrives_as_its_parts(self, slice_bytes: int) -> None:
        pair = ConnectionPair(slice_bytes=slice_bytes)
        pair.client.send_aggregate(pair.publishing(), *SENT)
        pair.run()
        assert arrived(pair.server_events) == expected()
        assert pair.server.ignored_messages == 0

    def test_aggregate_to_a_player_arrives_as_its_parts(self, idle: ConnectionPair) -> None:
        idle.client.play(1, "cam")
        idle.run()
        message = encode_aggregate(1, SENT)
        idle.server.send_message(Message(AGGREGATE, message.timestamp + 1000, 1, message.payload))
        idle.run()
        assert arrived(idle.client_events) == expected(shift=1000)

    def test_media_go_to_the_sink(self, fed: ConnectionPair, sink: Sink) -> None:
        fed.client.send_aggregate(1, *SENT[1:])
        fed.run()
        assert sink.taken == [("audio", 90, b"a"), ("video", 100, b"v"), ("audio", 110, b"b")]

    def test_commands_and_control_within_an_aggregate_are_only_reported(self, publisher: ConnectionPair) -> None:
        """No command acts from within one, nor does control, nor is one in another looked into."""
        inner = encode_aggregate(1, SENT).payload
        delete = amf0.encode("deleteStream", 0, None, 1)
        publisher.client.send_aggregate(
            1,
            AggregatePart(AGGREGATE, 0, inner),
            AggregatePart(20, 0, delete),
            AggregatePart(1, 0, b"\0\0\0\1"),
            AggregatePart(AUDIO, 0, b"a"),
        )
        assert publisher.take_server(events.UnknownMessage) == [
            events.UnknownMessage(AGGREGATE, 1, inner),
            events.UnknownMessage(20, 1, delete),
            events.UnknownMessage(1, 1, b"\0\0\0\1"),
        ]
        assert len(arrived(publisher.server_events)) == 1

    def test_rest_of_a_cut_aggregate_is_reported(self, publisher: ConnectionPair) -> None:
        publisher.client.send_message(Message(AGGREGATE, 90, 1, encode_aggregate(1, SENT).payload[:-5]))
        publisher.run()
        assert arrived(publisher.server_events) == expected()[:-1]
        (unknown,) = publisher.take_server(events.UnknownMessage)
        assert (unknown.type_id, len(unknown.payload)) == (AGGREGATE, 11)

    def test_aggregate_on_a_stream_that_does_not_publish_is_ignored(self, pair: ConnectionPair) -> None:
        pair.client.send_aggregate(pair.create_stream(), *SENT)
        pair.run()
        assert arrived(pair.server_events) == []
        assert pair.server.ignored_messages == len(SENT)

    @pytest.mark.parametrize("type_id", [AUDIO, DATA, 77])
    def test_aggregate_of_endless_small_messages_exceeds_the_limit(self, type_id: int) -> None:
        """One aggregate may hold a million of them, and be whole with the last read."""
        pair = ConnectionPair(server_limits=Limits(messages_per_read=100))
        stream_id = pair.publishing()
        part = tag(type_id, 0, amf0.encode("onTextData") if type_id == DATA else b"")
        pair.ended_by(LimitExceeded, Message(AGGREGATE, 0, stream_id, part * 100_000))
        assert len(pair.server.events()) <= 100 * 16

    def test_data_within_an_aggregate_count_as_data_messages(self) -> None:
        pair = ConnectionPair(server_limits=Limits(messages_per_read=100))
        stream_id = pair.publishing()
        pair.client.send_aggregate(stream_id, *[AggregatePart(AUDIO, 0, b"")] * 200)
        pair.run()
        assert len(arrived(pair.server_events)) == 200
        pair.client.send_aggregate(stream_id, *[AggregatePart(DATA, 0, amf0.encode("onTextData"))] * 200)
        pair.ended_by(LimitExceeded)

    def test_endless_small_aggregates_in_one_read_exceed_the_limit(self, publisher: ConnectionPair) -> None:
        publisher.client.data_to_send()
        data = wire.type0(7, 0, AGGREGATE, 1, tag(AUDIO, 0, b"")) * 2000
        with pytest.raises(LimitExceeded):
            publisher.server.receive_data(data)

    def test_aggregates_of_small_messages_together_exceed_the_limit_of_a_read(self, publisher: ConnectionPair) -> None:
        """Each within what one read may have, and more than that together."""
        publisher.client.send_chunk_size(0xFFFFFF)
        for _ in range(4):
            publisher.client.send_aggregate(1, *[AggregatePart(AUDIO, 0, b"")] * 5000)
        publisher.ended_by(LimitExceeded)
        assert len(publisher.server.events()) <= 16_000

    def test_memory_for_a_hostile_aggregate_is_bounded(self, publisher: ConnectionPair) -> None:
        """Of 690,000 messages, 16,000 are looked at: their tuples are about 2 MB."""
        publisher.client.send_chunk_size(0xFFFFFF)
        publisher.run()
        payload = tag(AUDIO, 0, b"") * 690_000
        publisher.client.send_message(Message(AGGREGATE, 0, 1, payload))
        data = publisher.client.data_to_send()
        publisher.server.receive_data(data[:-1])
        tracemalloc.start()
        try:
            with pytest.raises(LimitExceeded):
                publisher.server.receive_data(data[-1:])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2 * len(payload) + 8_000_000

    def test_full_read_of_aggregates_with_sound_is_accepted(self, publisher: ConnectionPair) -> None:
        """A read full of sound in aggregates of a second each."""
        second = [AggregatePart(AUDIO, number * 20, bytes(40)) for number in range(50)]
        for _ in range(256 * 1024 // (50 * 55)):
            publisher.client.send_aggregate(1, *second)
        publisher.run()
        assert len(arrived(publisher.server_events)) == 95 * 50
