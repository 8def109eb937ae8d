"""The test picture's publisher."""

import pytest

from ingest.management.commands import testpattern
from ingest.server import RtmpServer


async def test_what_is_no_flv_is_told(monkeypatch: pytest.MonkeyPatch, server: RtmpServer) -> None:
    monkeypatch.setattr(testpattern, "ffmpeg_command", lambda *_: ["echo", "no FLV at all"])
    with pytest.raises(testpattern.PublishFailed, match="What FFmpeg wrote can't be published: no FLV"):
        await testpattern.publish_picture(
            f"rtmp://127.0.0.1:{server.addresses[0][1]}/live", "cam", testpattern.Picture()
        )
