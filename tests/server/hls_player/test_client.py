"""The player, against an origin that comes part by part."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
import pytest_asyncio

from tests.hls.checks import run
from tests.hls.client import HELD_UP_S, LOOK_S, Arrived, FollowError, Player
from tests.hls.http_checks import ANSWERS, refusals
from tests.hls.origin import FPS, PART_S, PARTS, Origin, clip
from tests.hls.validator import faults


@pytest_asyncio.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin(clip()) as found:
        yield found


async def test_player_follows_part_by_part(origin: Origin) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: len(video.received) >= 12)
        await video.fetch_wholes()
    first, last = video.received[0], video.received[-1]
    assert first.part == 0, "it begins with a part that is independent"
    places = [one.segment.msn * PARTS + one.part for one in video.received]
    assert places == list(range(places[0], places[0] + 12))
    assert [one.answer.body for one in video.received] == clip().parts[places[0] : places[-1] + 1]
    assert faults(player.findings()) == []
    pictures = round(12 * PART_S * FPS)
    assert video.decoded("video") == pictures
    times = [packet.pts_s for packet in video.packets() if packet.kind == "video"]
    assert times == pytest.approx([places[0] * PART_S + number / FPS for number in range(pictures)])
    assert last.date is not None
    assert any("_HLS_skip=YES" in request for request in origin.requests)
    assert all(fetch.asked is not None for fetch in video.fetches[1:])


async def test_delays_are_measured_until_the_part_is_whole(origin: Origin) -> None:
    """A sample is there when its part is whole."""

    def clock(one: Arrived) -> float | None:
        return origin.began + one.pts_s if one.track.kind == "video" else None

    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: len(video.received) >= 12)
    newest = video.delays(clock)[-5:]
    assert all(each >= 1 / FPS for each in newest), "the last sample of a part lasts until the part is there"
    assert max(newest) - min(newest) == pytest.approx(PART_S - 1 / FPS)
    assert min(newest) < 2
    assert video.date_delays()[-1] == pytest.approx(newest[-1] - 1 / FPS, abs=0.02)


async def test_hinted_parts_are_requested_ahead(origin: Origin) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: len(video.received) >= 12)
        waited = [one.answer.at - one.answer.asked_at for one in video.received]
        assert max(waited) > PART_S / 2
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: len(video.received) >= 8, hints=False)
        asked = {one.answer.name for one in video.received}
        assert max(one.answer.at - one.answer.asked_at for one in video.received) < PART_S
    assert {answer.name for answer in player.answers if answer.name.startswith("p")} == asked


async def test_player_ends_with_the_stream() -> None:
    async with Origin(clip(), ahead_s=15) as origin, Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.follow(lambda: False)
        assert video.playlist.is_ended
        assert (video.received[-1].segment.msn, video.received[-1].part) == (15, 4)
        assert faults(player.findings()) == []


async def test_player_notices_that_its_own_loop_was_held_up(origin: Origin) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.reload()
        time.sleep(0.3)  # noqa: ASYNC251 - it is what holds up the loop.
        await asyncio.sleep(2 * LOOK_S)
        await video.reload()
        assert video.fetches[1].held_up_s - video.fetches[0].held_up_s >= 0.3 - LOOK_S - HELD_UP_S


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


async def test_http_answer_checks_find_their_faults(origin: Origin) -> None:
    async with Player(origin.url) as player:
        init = await player.get(origin.url.replace("index.m3u8", "init.mp4"))
        await player.get(origin.url)
        assert {finding.name for finding in run(ANSWERS, player.answers)} == {"compressed"}
        odd = replace(init, url=origin.url, headers=httpx.Headers({"content-encoding": "gzip"}))
        assert [finding.name for finding in run(ANSWERS, [odd])] == ["playlist-type"]
        assert [finding.name for finding in run(ANSWERS, [init, replace(init, body=b"other")])] == ["constant"]


async def test_refusal_check_passes_a_strict_origin_and_faults_a_lax_one(
    origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Player(origin.url) as player, asyncio.timeout(8):
        video = await player.open()
        await video.reload()
        assert await refusals(player, video) == []

        async def plays_on(self: Origin, target: str) -> tuple[str, str, bytes]:
            return "200 OK", "application/vnd.apple.mpegurl", clip().playlist(40).encode()

        monkeypatch.setattr(Origin, "_answer", plays_on)
        assert {finding.level for finding in await refusals(player, video)} == {"must", "should"}
