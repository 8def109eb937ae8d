"""Connections that end while the events of one read are handled: what follows in it may concern the same streams."""

from typing import Any

import pytest

from ingest.live.shared_objects import ObjectLimits
from ingest.rtmp.messages.shared_object import SharedObject, Use
from ingest.server import process
from ingest.server.shared_objects import SharedObjects
from tests.ingest.server.app import Instance, Message, ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.sharer import Sharer


async def accept(_instance: Instance, _event: Message) -> Message:
    return {"type": "rtmp.accept", "shared_objects": "temporary"}


@pytest.mark.parametrize("kind", ["play", "publish"])
@pytest.mark.parametrize("told", [False, True], ids=["limit", "told"])
async def test_a_session_that_ends_before_another_request_on_its_stream_is_reported(
    app: ScriptedApplication,
    serve: Serve,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    told: bool,
) -> None:
    """`told`: its client is told of the end, which the limit of shared objects doesn't do."""

    def end(_objects: Any, link: Any, _event: Any) -> None:
        link.end("kicked", "An end in the middle of a read.")

    monkeypatch.setattr(process, "SLICE_S", 60.0)  # What doesn't fit one may be done after the read.
    app.on["rtmp.connect"] = accept
    server = await serve(config={"objects": ObjectLimits(work_per_s=10)})
    async with Sharer(port=server.addresses[0][1]) as client:
        await client.connect()
        await client.use()
        stream_id = await (client.play("a") if kind == "play" else client.publish("a"))
        if told:
            monkeypatch.setattr(SharedObjects, "received", end)
        for _ in range(100):
            client.protocol.send_shared_object(SharedObject(client.name, 0, False, [Use()]))
        if kind == "play":
            client.protocol.play(stream_id, "b")
        else:
            client.protocol.delete_stream(stream_id)
            client.protocol.publish(stream_id, "b")
        await client.flush()
        await client.wait_closed()
        ended = await app.event("rtmp.disconnect")
    kinds = app.connections[0].kinds
    end_of = {"play": "rtmp.stop", "publish": "rtmp.unpublish"}[kind]
    assert ended["reason"] == ("kicked" if told else "protocol_error")
    assert kinds.count(end_of) == 1
    assert kinds.index(end_of) < kinds.index("rtmp.disconnect")
    assert kinds.count(f"rtmp.{kind}") == 1
    assert server.sessions == {}
    assert not [record for record in caplog.records if record.exc_info]
