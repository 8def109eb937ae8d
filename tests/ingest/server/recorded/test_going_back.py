"""A client that was sent all of a recording, long before it has played it, and goes back in it."""

from pathlib import Path

import pytest

from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.recorded.files import VIDEO, made, record, write
from tests.ingest.server.recorded.viewer import Viewer

JUMP = ["NetStream.Seek.Notify", "STREAM_IS_RECORDED", "STREAM_BEGIN", "NetStream.Play.Start"]
END = ["STREAM_EOF", "NetStream.Play.Complete", "NetStream.Play.Stop"]

pytestmark = pytest.mark.usefixtures("clip")


async def test_a_seek(port: int, app: ScriptedApplication) -> None:
    async with Viewer(port=port) as viewer:
        await viewer.watch()
        await viewer.until_over()
        after = await viewer.command("seek", 3000.0)
        await viewer.until_over(after=after)
        assert viewer.story(after) == ["STREAM_EOF", *JUMP, "media", *END]
        pictures = [at for kind, at, _ in viewer.media(after) if kind == VIDEO]
        assert pictures == [3000, *range(3000, 5000, 100)]
        assert not app.connections[0].of("rtmp.stop"), "it may go back once more"
    assert (await app.event("rtmp.stop"))["reason"] == "completed"
    assert (await app.event("rtmp.disconnect"))["reason"] == "client_unpublish"


async def test_a_pause(port: int) -> None:
    """What it has it plays on; nothing is sent again, and it isn't told of the end again."""
    async with Viewer(port=port) as viewer:
        await viewer.watch()
        await viewer.until_over()
        after = await viewer.command("pause", True, 1000.0)
        await viewer.command("pause", False, 1000.0)
        await viewer.until_code("NetStream.Unpause.Notify", after=after)
        await viewer.command("seek", 4000.0)
        await viewer.until_over(after=after)
        assert viewer.story(after)[:2] == ["NetStream.Pause.Notify", "NetStream.Unpause.Notify"]
        assert viewer.story(after)[2:7] == ["STREAM_EOF", *JUMP]


@pytest.mark.parametrize("command", ["closeStream", "deleteStream"])
async def test_it_leaves(port: int, app: ScriptedApplication, command: str) -> None:
    async with Viewer(port=port) as viewer:
        await viewer.watch()
        await viewer.until_over()
        viewer.protocol.send_command(
            viewer.stream_id, command, 0, None, *([viewer.stream_id] if command[0] == "d" else [])
        )
        await viewer.flush()
        stopped = await app.event("rtmp.stop")
        assert (stopped["reason"], stopped["description"]) == ("completed", "All that was to be played has been sent.")


async def test_something_else_is_played(port: int, app: ScriptedApplication) -> None:
    async with Viewer(port=port) as viewer:
        await viewer.watch()
        await viewer.until_over()
        for reset in (True, False):
            after = len(viewer.received)
            viewer.protocol.play(viewer.stream_id, "clip", 2000, 1000, reset=reset)
            await viewer.flush()
            await viewer.until_over(after=after)
            assert [at for kind, at, _ in viewer.media(after) if kind == VIDEO] == [0, *range(0, 1000, 100)]
    await app.event("rtmp.disconnect")
    assert [event["reason"] for event in app.connections[0].of("rtmp.stop")] == ["completed"] * 3


async def test_it_has_its_time_and_no_more(serve: Serve, app: ScriptedApplication, tmp_path: Path) -> None:
    record(app, write(tmp_path / "short.flv", made(0.5)))
    server = await serve(back_s=0.3)
    async with Viewer(port=server.addresses[0][1]) as viewer:
        await viewer.watch()
        await viewer.until_over()
        assert (await app.event("rtmp.stop"))["reason"] == "completed"
        assert viewer.story()[-3:] == END
        after = await viewer.command("seek", 0.0)
        await viewer.until_code("NetStream.Seek.Failed", after=after)


async def test_an_operator_ends_it(port: int, app: ScriptedApplication) -> None:
    async with Viewer(port=port) as viewer:
        await viewer.watch()
        await viewer.until_over()
        await app.connections[0].send({"type": "rtmp.close", "reason": "kicked"})
        assert (await app.event("rtmp.stop"))["reason"] == "kicked"
