"""A publisher that pauses keeps its stream, in the database too."""

import pytest

from ingest.models import Lease, StatusEvent
from ingest.rtmp import events
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.listener import listening
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_paused_publisher_is_not_taken_over_as_a_silent_one_is(process: HistoryWriter, key: NewKey) -> None:
    """By the same key, long after a silence would have been enough: see test_takeover_live."""
    async with listening() as port, RtmpClient(port=port) as publisher, RtmpClient(port=port, timeout_s=12) as other:
        await publisher.connect("live")
        stream_id = await publisher.publish(key.secret)
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(0))
        await until(Lease.objects.filter(silent_since__isnull=False).exists)
        publisher.protocol.send_command(stream_id, "pause", 0, None, True, 0.0)
        await publisher.flush()
        await publisher.wait_for(events.StatusReceived, lambda event: event.code == "NetStream.Pause.Notify")
        await until(Lease.objects.filter(silent_since=None).exists)
        await other.connect("live")
        with pytest.raises(Refused, match="BadName"):
            await other.publish(key.secret)
        assert not publisher.closed
        publisher.protocol.send_command(stream_id, "pause", 0, None, False, 0.0)
        await publisher.send_video(stream_id, 40, key_frame(1))
        await publisher.wait_for(events.StatusReceived, lambda event: event.code == "NetStream.Unpause.Notify")
    told = StatusEvent.objects.filter(kind="onstatus", code__contains="ause.Notify").order_by("sequence")
    await until(told.filter(code="NetStream.Unpause.Notify").exists)
    assert [event.code async for event in told] == ["NetStream.Pause.Notify", "NetStream.Unpause.Notify"]
