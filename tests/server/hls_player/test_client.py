"""The player of low-latency HLS against an origin whose stream comes part by part."""

import asyncio
import io
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import av
import pytest
import pytest_asyncio

from tests.hls.clip import FPS, PART_S, PARTS, Origin, clip
from tests.hls.player import HELD_UP_S, LOOK_S, FollowError, Player
from tests.server.waiting import becomes


@pytest_asyncio.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin(clip()) as found:
        yield found


async def test_player_follows_part_by_part(origin: Origin) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: len(video.received) >= 12)
        await video.fetch_wholes()
    assert video.received[0].part == 0, "it begins with a part that is independent"
    places = [one.segment.msn * PARTS + one.part for one in video.received]
    assert places == list(range(places[0], places[0] + 12))
    assert [one.body for one in video.received] == clip().parts[places[0] : places[-1] + 1]
    assert player.findings() == []
    pictures = round(12 * PART_S * FPS)
    assert video.decoded("video") == pictures
    with av.open(io.BytesIO(video.joined()[0]), "r") as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    times = [float((packet.pts or 0) * (packet.time_base or 0)) for packet in packets]
    assert times == pytest.approx([places[0] * PART_S + number / FPS for number in range(pictures)])
    assert any("_HLS_skip=YES" in request for request in origin.requests)
    assert all(fetch.asked is not None for fetch in video.fetches[1:])


async def test_hinted_parts_are_requested_ahead(origin: Origin) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: len(video.received) >= 12)
        assert max(one.answer.elapsed.total_seconds() for one in video.received) > PART_S / 2


async def test_player_ends_with_the_stream() -> None:
    async with Origin(clip(), ahead_s=15) as origin, Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: False)
        assert video.playlist.is_ended
        assert (video.received[-1].segment.msn, video.received[-1].part) == (15, 4)
        assert player.findings() == []


async def test_origin_whose_sleep_ends_early_answers_when_the_part_is_there(origin: Origin) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        answer = asyncio.create_task(player.get(origin.url.replace("index.m3u8", "p8.2.m4s")))
        await becomes(lambda: origin.requests)
        origin.began += PART_S / 4  # The sleep was for the former time.
        assert (await answer).content == clip().parts[8 * PARTS + 2]


async def test_player_notices_that_its_own_loop_was_held_up(origin: Origin) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.reload()
        time.sleep(0.3)  # noqa: ASYNC251 - it is what holds up the loop.
        await asyncio.sleep(2 * LOOK_S)
        await video.reload()
        assert video.fetches[1].held_up_s - video.fetches[0].held_up_s >= 0.3 - LOOK_S - HELD_UP_S


async def test_media_that_changes_at_its_url_is_a_finding(origin: Origin) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: len(video.received) >= 1)
        origin.clip = replace(origin.clip, init=b"another")
        await player.get(origin.url.replace("index.m3u8", "init.mp4"))
        assert [finding.name for finding in player.findings()] == ["constant"]


async def test_missing_playlist_raises_follow_error_404(origin: Origin) -> None:
    async with Player(origin.url.replace("index", "other")) as player:
        with pytest.raises(FollowError, match="404"):
            await player.open()


async def test_player_that_sleeps_too_long_fails_as_segments_are_gone() -> None:
    async with Origin(clip(), ahead_s=2) as origin, Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: len(video.received) >= 2)
        origin.began -= 13  # The rest of the clip is there at once.
        with pytest.raises(FollowError, match="gone"):
            await video.follow(lambda: False)
