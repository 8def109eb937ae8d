"""Texts of a publisher by HLS: from the node where they are published, through a packager, to a player."""

import asyncio
from pathlib import Path

import pytest

from ingest.hls import HlsSettings
from ingest.services.keys import NewKey
from tests.hls.player import Player, Rendition
from tests.ingest.packager.running import ClipPublisher, Running, running
from tests.ingest.packager.test_streams import assert_valid, opened
from tests.ingest.ticks import until
from tests.pure.hls.test_subtitles import cues

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


async def follow_until(subtitles: Rendition, words: str) -> None:
    """Part by part, as they come, until one has these words."""
    async with asyncio.timeout(10):
        await subtitles.follow(lambda: words.encode() in subtitles.received[-1].body if subtitles.received else False)


async def test_viewer_gets_subtitles_aligned_with_the_video_segments(key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip) as publisher, Player(hls.url()) as player:
        await opened(player)
        await publisher.say("Good morning.", language="en")
        video, subtitles = await subtitled(hls, player)
        await publisher.say("We begin <now>.", language="en")
        await follow_until(subtitles, "We begin &lt;now&gt;.")
        await publisher.say("", language="en")
        async with asyncio.timeout(10):
            await subtitles.follow(lambda: b"-->" not in subtitles.received[-1].body)
            await subtitles.follow(lambda: subtitles.received[0].segment.msn < subtitles.playlist.next_msn)
        await subtitles.fetch_wholes()
        await video.reload()
        await subtitles.reload()
        assert subtitles.wholes
        assert_valid(player)
        for body in subtitles.media().bodies:
            if body.whole is not None and body.joined is not None:
                assert [cue for part in body.parts for cue in cues(part or b"")] == cues(body.whole)
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


async def test_subtitle_segment_that_left_memory_is_served_from_disk(key: NewKey, clip: Path, tmp_path: Path) -> None:
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
