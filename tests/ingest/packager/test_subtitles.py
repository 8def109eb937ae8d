"""Texts of a publisher by HLS: from the node where they are published, through a packager, to a player."""

import asyncio
from pathlib import Path
from urllib.parse import urljoin

import pytest

from ingest.hls import HlsSettings
from ingest.services.keys import NewKey
from tests.hls.client import Player, Rendition
from tests.ingest.packager.running import ClipPublisher, Running, running
from tests.ingest.packager.test_streams import assert_valid, opened
from tests.ingest.ticks import until

pytestmark = pytest.mark.usefixtures("process")


async def subtitled(hls: Running, player: Player) -> tuple[Rendition, Rendition]:
    """The first variant and its subtitles, once they are offered."""
    async with asyncio.timeout(20):
        while True:
            rendition = await opened(player)
            assert player.multivariant is not None
            if found := player.multivariant.group("SUBTITLES", "subtitles"):
                return rendition, player.rendition(found[0].text("URI"))
            await asyncio.sleep(0.05)


async def read_until(subtitles: Rendition, player: Player, words: str) -> str:
    """Each new part as it comes, until one has these words."""
    playlist = await subtitles.reload()
    async with asyncio.timeout(10):
        while True:
            msn, part = playlist.last
            after = (msn, part + 1) if part >= 0 else (msn + 1, 0)
            playlist = await subtitles.reload(after)
            file = (await player.get(urljoin(subtitles.url, playlist.parts[-1][2].uri))).body.decode()
            if words in file:
                return file


async def test_who_asks_gets_them_beside_the_picture(key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip) as publisher, Player(hls.url()) as player:
        await opened(player)
        await publisher.say("Good morning.", language="en")
        video, subtitles = await subtitled(hls, player)
        await publisher.say("We begin <now>.", language="en")
        await read_until(subtitles, player, "We begin &lt;now&gt;.")
        await publisher.say("", language="en")
        while "-->" in await read_until(subtitles, player, "WEBVTT"):
            pass
        await video.reload()
        assert_valid(player)
        names = [(one.msn, one.discontinuity) for one in subtitles.playlist.all_segments]
        assert names == [(one.msn, one.discontinuity) for one in video.playlist.all_segments][: len(names)]
        uri = subtitles.playlist.segments[-1].uri
        answer = await hls.get(uri, headers={"Origin": "https://church.example"})
        assert answer.headers["content-type"] == "text/vtt"
        assert answer.headers["cache-control"] == "public, max-age=86400, immutable"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "content-encoding" not in answer.headers
        assert (await hls.get(uri.replace(".vtt", ".m4s"))).status_code == 404
        assert (await hls.get("s7.m3u8")).status_code == 404


async def test_what_left_memory_comes_from_disk(key: NewKey, clip: Path, tmp_path: Path) -> None:
    settings = HlsSettings(rewind_s=3600, window_s=1.0, segment_target_s=1.0)
    async with (
        running(hls=settings, rewind=tmp_path / "rewind", rewind_s=3600) as hls,
        ClipPublisher(hls, key.secret, clip, pace=8.0) as publisher,
        Player(hls.url()) as player,
    ):
        await opened(player)
        await publisher.say("Long ago.")
        _, subtitles = await subtitled(hls, player)
        stream = hls.packager.packaged("live/cam1")
        assert stream is not None
        packaged = stream.packaging.renditions["s0"]
        await until(lambda: len(packaged.segments) > 9 and not packaged.segments[8].is_in_memory)
        playlist = await subtitles.reload()
        texts = [(await hls.get(segment.uri)).text for segment in playlist.segments[:8]]
        assert all(text.startswith("WEBVTT\nX-TIMESTAMP-MAP=LOCAL:") for text in texts)
        assert any("Long ago." in text for text in texts)
