"""The many ways in which publishing ends."""

from typing import Any

import pytest

from ingest.rtmp import LimitExceeded, Limits, LocalProtocolError, Message, events
from tests.ingest.rtmp.pair import ConnectionPair
from tests.ingest.rtmp.server.helpers import answers


def ended(pair: ConnectionPair) -> list[Any]:
    return pair.take_server(events.PublishStopped, events.StreamDeleted)


@pytest.fixture
def secret() -> ConnectionPair:
    """Publishes as `cam?secret`, which is shown as `cam`."""
    pair = ConnectionPair()
    pair.publishing("cam?secret")
    return pair


class TestUnpublish:
    @pytest.mark.parametrize("name", ["cam?secret", "other", None])
    def test_fc_unpublish(self, secret: ConnectionPair, name: str | None) -> None:
        found = answers(secret, lambda: secret.client.call("FCUnpublish", *([name] if name else [])))
        assert [values[0] for _, values in found] == ["onFCUnpublish", "_result", "onStatus"]
        assert found[0][1][3] == {"level": "status", "code": "NetStream.Unpublish.Success", "description": "cam"}
        assert found[2][0] == 1
        assert found[2][1][3]["code"] == "NetStream.Unpublish.Success"
        assert ended(secret) == [events.PublishStopped(1, "FCUnpublish")]

    @pytest.mark.parametrize(
        "arguments", [[1.0], ["cam?secret"], ["unknown"], []], ids=["id", "name", "another name", "nothing"]
    )
    @pytest.mark.parametrize("stream_id", [0, 1])
    def test_delete_stream(self, secret: ConnectionPair, arguments: list[Any], stream_id: int) -> None:
        found = answers(secret, lambda: secret.client.call("deleteStream", *arguments, stream_id=stream_id))
        assert [(stream, values[0], values[3]["code"]) for stream, values in found] == [
            (1, "onStatus", "NetStream.Unpublish.Success")
        ]
        assert ended(secret) == [events.PublishStopped(1, "deleteStream"), events.StreamDeleted(1)]

    def test_close_stream_leaves_the_stream_to_be_used_again(self, publisher: ConnectionPair) -> None:
        found = answers(publisher, lambda: publisher.client.close_stream(1))
        assert [values[3]["code"] for _, values in found] == ["NetStream.Unpublish.Success"]
        assert ended(publisher) == [events.PublishStopped(1, "closeStream")]
        publisher.client.publish(1, "cam")
        assert publisher.take_client(events.StatusReceived)[-1].code == "NetStream.Publish.Start"

    @pytest.mark.parametrize(
        "order",
        [
            ["FCUnpublish", "deleteStream"],
            ["FCUnpublish", "closeStream", "deleteStream"],
            ["closeStream", "FCUnpublish", "deleteStream"],
            ["deleteStream", "FCUnpublish", "closeStream", "deleteStream"],
        ],
    )
    def test_in_any_order_it_ends_once(self, publisher: ConnectionPair, order: list[str]) -> None:
        for procedure in order:
            publisher.client.notify(procedure, 1.0 if procedure == "deleteStream" else "cam", stream_id=1)
        assert ended(publisher) == [events.PublishStopped(1, order[0]), events.StreamDeleted(1)]
        statuses = [status.code for status in publisher.take_client(events.StatusReceived)]
        assert statuses == ["NetStream.Publish.Start", "NetStream.Unpublish.Success"]

    @pytest.mark.parametrize("procedure", ["FCUnpublish", "deleteStream"])
    def test_a_name_means_the_stream_that_has_it_now(self, publisher: ConnectionPair, procedure: str) -> None:
        """The encoder ended another one by that name before, and made a new one."""
        publisher.client.close_stream(1)
        stream_id = publisher.create_stream()
        publisher.client.publish(stream_id, "cam")
        publisher.run()
        publisher.client.notify(procedure, "cam", stream_id=0)
        assert publisher.take_server(events.PublishStopped)[1:] == [events.PublishStopped(stream_id, procedure)]

    @pytest.mark.parametrize(
        ("name", "ended"), [("b", [2]), ("b?key=2", [2]), ("a", []), ("a?key=1", [1]), ("c", [])], ids=str
    )
    def test_of_several_streams_a_name_means_one(self, name: str, ended: list[int]) -> None:
        """Also without its parameters, as some encoders announce it; not if that could be another."""
        pair = ConnectionPair()
        pair.publishing("a?key=1")
        for other in ("b?key=2", "a?key=3"):
            pair.client.publish(pair.create_stream(), other)
        pair.run()
        pair.client.notify("FCUnpublish", name, stream_id=0)
        assert [event.stream_id for event in pair.take_server(events.PublishStopped)] == ended

    @pytest.mark.parametrize("key", [7.0, -1.0, 0.5, float("nan"), float("inf"), 1e300])
    def test_ids_that_are_not_there(self, publisher: ConnectionPair, key: float) -> None:
        publisher.client.notify("deleteStream", key, stream_id=1)
        assert ended(publisher) == []

    def test_media_that_comes_later_is_counted_and_ignored(self) -> None:
        pair = ConnectionPair(server_limits=Limits(ignored_messages=3))
        pair.publishing()
        pair.client.delete_stream(1)
        for number in range(3):
            pair.client.send_message(Message((8, 9, 18)[number], 0, 1, b""))
        pair.run()
        assert pair.server.ignored_messages == 3
        assert pair.take_server(events.AudioReceived, events.VideoReceived, events.DataReceived) == []
        pair.client.send_audio(1, 0, b"")
        pair.ended_by(LimitExceeded)

    def test_late_media_is_no_fault_while_another_stream_publishes(self) -> None:
        """An encoder of several renditions, one of which was stopped here, goes on sending them all."""
        pair = ConnectionPair(server_limits=Limits(ignored_messages=3))
        pair.publishing("low")
        stream_id = pair.create_stream()
        pair.client.publish(stream_id, "high")
        pair.run()
        pair.server.stop_stream(1)
        for number in range(50):
            pair.client.send_video(1, number, b"low")
            pair.client.send_video(stream_id, number, b"high")
            pair.run()
        assert len(pair.take_server(events.VideoReceived)) == 50
        pair.server.stop_stream(stream_id)
        for number in range(4):
            pair.client.send_video(1 + number % 2, number, b"late")
        pair.ended_by(LimitExceeded)

    def test_late_media_of_one_session_is_forgotten_at_the_next(self) -> None:
        pair = ConnectionPair(server_limits=Limits(ignored_messages=3))
        stream_id = pair.publishing()
        for number in range(5):
            pair.client.delete_stream(stream_id)
            pair.client.send_video(stream_id, number, b"late")
            pair.client.send_video(stream_id, number, b"late")
            stream_id = pair.create_stream()
            pair.client.publish(stream_id, "cam")
            pair.run()
        assert len(pair.take_server(events.PublishStopped)) == 5

    def test_stopped_by_our_side(self, publisher: ConnectionPair) -> None:
        publisher.server.send_status(1, "error", "NetStream.Publish.Denied", "Kicked.")
        publisher.server.stop_stream(1)
        publisher.client.send_video(1, 0, b"v")
        assert publisher.take_server(events.VideoReceived, events.PublishStopped) == []
        assert publisher.server.ignored_messages == 1
        assert publisher.take_client(events.StatusReceived)[-1].code == "NetStream.Publish.Denied"
        with pytest.raises(LocalProtocolError):
            publisher.server.stop_stream(2)
