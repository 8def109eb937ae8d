import pytest

from ingest.history import HistoryWriter
from ingest.models import Attempt, Lease, Session, StatusEvent
from ingest.services.keys import NewKey
from tests.ingest.control import TOTALS, Connection

pytestmark = pytest.mark.django_db(transaction=True)


def written(writer: HistoryWriter) -> None:
    assert writer.flush(5)


@pytest.fixture
async def connection(process: HistoryWriter, key: NewKey) -> Connection:
    made = Connection()
    assert await made.connect() == {"type": "rtmp.accept"}
    return made


async def test_a_session_from_connect_to_end(connection: Connection, process: HistoryWriter, key: NewKey) -> None:
    await connection.status("NetConnection.Connect.Success", stream_id=0)
    answer = await connection.publish(key.secret)
    assert answer["type"] == "rtmp.publish.accept"
    assert answer["path"] == "live/cam1"
    assert answer["labels"] == {"stream": key.key.stream_id, "key": key.key.pk}
    await connection.status("NetStream.Publish.Start")
    await connection.unpublish(answer["session_id"])
    await connection.disconnect()
    written(process)
    session = await Session.objects.aget()
    assert str(session.pk) == answer["session_id"]
    assert (session.kind, session.end_reason, session.bytes_in) == ("publish", "client_unpublish", TOTALS["bytes_in"])
    events = [(event.sequence, event.kind, event.code) async for event in StatusEvent.objects.order_by("sequence")]
    assert events == [
        (1, "onstatus", "NetConnection.Connect.Success"),
        (2, "session.started", "publish"),
        (3, "onstatus", "NetStream.Publish.Start"),
        (4, "session.ended", "client_unpublish"),
    ]
    assert await Lease.objects.aget() == await Lease.objects.filter(session=None).aget()
    assert not await Attempt.objects.aexists()
