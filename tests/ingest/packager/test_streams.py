"""Streams by HLS: what a player gets of them, from a node where they are published, through a packager."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.hls import HlsSettings
from ingest.models import PullSource, Stream
from ingest.packager import packager
from ingest.server import RtmpServer
from ingest.services import pulls
from ingest.services.audit import Actor
from ingest.services.keys import NewKey
from tests.hls.player import FollowError, Player, Rendition
from tests.hls.playlist import Playlist
from tests.ingest.packager.running import PACKAGER, PATIENT, SHORT, ClipPublisher, Running, running
from tests.ingest.test_relays import relayed
from tests.ingest.ticks import until
from tests.media import make_clip, read_packets
from tests.pure.hls.feeding import make_flv
from tests.tools import require_tool

pytestmark = pytest.mark.usefixtures("process")

UNFIT = {
    "-c:v flv -an -t 4": "H.263",
    "-c:v flv -c:a adpcm_swf -ar 44100 -t 4": "ADPCM",
}
"""{FFmpeg's options: what browsers can't play of it}"""


@pytest.fixture(scope="module")
def larger_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clip in another size."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clips") / "larger.flv", seconds=4, video_kbps=400, size="480x270")


async def opened(player: Player) -> Rendition:
    """Once there is something to watch."""
    async with asyncio.timeout(20):
        while True:
            with suppress(FollowError):
                return await player.open()
            await asyncio.sleep(0.05)


def subscribers(server: RtmpServer) -> int:
    live = server.registry.get("live/cam1")
    return len(live.subscribers) if live is not None else 0


async def look(hls: Running) -> Playlist:
    """A viewer who asks for one playlist."""
    async with Player(hls.url()) as player:
        return await (await opened(player)).reload()


async def until_state(hls: Running, state: str) -> None:
    """As the watch page is told."""
    async with asyncio.timeout(10):
        while (await hls.get("state.json")).json()["state"] != state:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def watched_to_the_end(publisher: ClipPublisher, player: Player) -> Rendition:
    """Of a clip that is sent once."""

    async def publish() -> None:
        async with publisher:
            await publisher.sent()

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(publish())
        rendition = await opened(player)
        await rendition.follow(lambda: False)
    return rendition


def assert_valid(player: Player, *without: str) -> None:
    """`without`: names of checks that do not apply."""
    assert [finding for finding in player.findings() if finding.name not in without] == []


async def test_packets_delivered_by_hls_equal_the_published_ones(key: NewKey, clip: Path, tmp_path: Path) -> None:
    async with running(end_players_s=0.2) as hls, Player(hls.url()) as player:
        rendition = await watched_to_the_end(ClipPublisher(hls, key.secret, clip, pace=2.0, repeats=False), player)
        assert_valid(player)
    got = tmp_path / "got.mp4"
    got.write_bytes(b"".join(rendition.joined()))
    there, here = read_packets(str(clip)), read_packets(str(got))
    for kind in ("video", "audio"):
        published = [packet.data for packet in there if packet.kind == kind]
        delivered = [packet.data for packet in here if packet.kind == kind]
        assert len(delivered) > len(published) * 2 / 3
        assert delivered == published[-len(delivered) :], kind


async def test_stream_is_fetched_once_and_released_without_viewers(
    key: NewKey, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packager.Packager, "_gone_s", lambda whole, _path: whole.settings.gone_s)
    async with running(hls=SHORT, idle_s=0.5, gone_s=0.5) as hls, ClipPublisher(hls, key.secret, clip):
        await asyncio.gather(*(look(hls) for _ in range(5)))
        assert subscribers(hls.packager.server) == 1
        await until(lambda: [each["state"] for each in relayed(PACKAGER)] == ["live"])
        assert subscribers(hls.origin) == 1
        await until(lambda: hls.packager.packaged("live/cam1") is None)


@pytest.mark.parametrize("codecs", UNFIT)
async def test_viewer_of_an_unplayable_codec_is_refused_at_once_with_its_name(
    key: NewKey, codecs: str, tmp_path: Path
) -> None:
    """And not when it has been waited for in vain; who comes next as well."""
    clip = make_flv(tmp_path / "clip.flv", codecs)
    async with running(ready_s=10 * PATIENT) as hls, ClipPublisher(hls, key.secret, clip, pace=1.0):
        for answer in (await hls.get(), await hls.get()):
            assert answer.status_code == 415
            assert UNFIT[codecs] in answer.json()["detail"]
        assert (await hls.get("state.json")).json()["state"] == "closed"


async def test_an_encoder_that_comes_back_goes_on_with_a_discontinuity(
    key: NewKey, clip: Path, larger_clip: Path
) -> None:
    """In another size, too; and its viewer needs to do nothing."""
    async with running() as hls, Player(hls.url()) as player:
        async with ClipPublisher(hls, key.secret, clip):
            rendition = await opened(player)
            await rendition.follow(lambda: len(rendition.received) >= 3)
        async with asyncio.timeout(20), ClipPublisher(hls, key.secret, larger_clip):
            await rendition.follow(lambda: len(rendition.inits) == 2)
            before = len(rendition.received)
            await rendition.follow(lambda: len(rendition.received) >= before + 5)
        assert len(rendition.inits) == 2
        assert rendition.decoded("video") > 0
        assert_valid(player, "codecs", "resolution")  # The player has the multivariant playlist of before.


async def test_playlist_stays_valid_across_the_32_bit_timestamp_wrap(key: NewKey, clip: Path) -> None:
    async with running(end_players_s=0.2) as hls, Player(hls.url()) as player:
        publisher = ClipPublisher(hls, key.secret, clip, pace=2.0, repeats=False, at_ms=0xFFFF_F800)
        rendition = await watched_to_the_end(publisher, player)
        assert rendition.decoded("video") > 60
        assert_valid(player)


async def test_the_playlist_ends_when_the_publisher_has_left_for_good(key: NewKey, clip: Path) -> None:
    async with running(end_players_s=0.5) as hls, Player(hls.url()) as player:
        async with ClipPublisher(hls, key.secret, clip):
            rendition = await opened(player)
            await rendition.follow(lambda: len(rendition.received) >= 3)
        async with asyncio.timeout(20):
            await rendition.follow(lambda: False)
        assert rendition.playlist.is_ended
        await until_state(hls, "ended")
        async with ClipPublisher(hls, key.secret, clip):
            again = await look(hls)
            assert not again.is_ended
            assert again.media_sequence > rendition.playlist.media_sequence


async def test_viewer_who_asked_too_early_can_watch_once_it_is_published(key: NewKey, clip: Path) -> None:
    """That nobody published was remembered a moment ago."""
    async with running(hls=SHORT, ready_s=PATIENT, known_s=1.0) as hls:
        assert (await hls.get()).status_code == 404
        async with ClipPublisher(hls, key.secret, clip):
            assert (await hls.get()).status_code == 200


async def test_the_last_segment_is_there_as_soon_as_the_publisher_has_left(
    key: NewKey, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not with what is looked at each second."""
    monkeypatch.setattr(packager, "TICK_S", 3600.0)
    async with running() as hls, Player(hls.url()) as player:
        async with ClipPublisher(hls, key.secret, clip):
            rendition = await opened(player)
            await rendition.follow(lambda: rendition.playlist.open is not None)
            opened_msn = rendition.playlist.next_msn
        async with asyncio.timeout(5):
            while (await rendition.reload()).next_msn == opened_msn:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert not rendition.playlist.is_ended


async def test_a_stream_that_is_always_packaged_is_so_before_anybody_asks(
    stream: Stream, key: NewKey, clip: Path
) -> None:
    await Stream.objects.filter(pk=stream.pk).aupdate(hls_always=True)
    async with running(always_s=0.1, idle_s=0.2) as hls, ClipPublisher(hls, key.secret, clip):
        await until(lambda: (found := hls.packager.packaged("live/cam1")) is not None and found.packaging.is_ready)
        await Stream.objects.filter(pk=stream.pk).aupdate(hls_always=False)
        await until(lambda: hls.packager.packaged("live/cam1") is None)


async def test_always_packaged_stream_is_released_when_it_ends(stream: Stream, key: NewKey, clip: Path) -> None:
    await Stream.objects.filter(pk=stream.pk).aupdate(hls_always=True)
    async with running(always_s=0.1, idle_s=0.2, end_players_s=0.3) as hls:
        async with ClipPublisher(hls, key.secret, clip):
            await until(lambda: (found := hls.packager.packaged("live/cam1")) is not None and found.packaging.is_ready)
        await until(lambda: hls.packager.packaged("live/cam1") is None)


async def test_segment_that_left_memory_is_served_from_disk(key: NewKey, clip: Path, tmp_path: Path) -> None:
    settings = HlsSettings(rewind_s=3600, window_s=1.0, segment_target_s=1.0)
    async with (
        running(hls=settings, rewind=tmp_path / "rewind", rewind_s=3600) as hls,
        ClipPublisher(hls, key.secret, clip, pace=8.0),
        Player(hls.url()) as player,
    ):
        rendition = await opened(player)
        stream = hls.packager.packaged("live/cam1")
        assert stream is not None
        packaged = stream.packaging.renditions["v0"]
        await until(lambda: packaged.segments and not packaged.segments[0].is_in_memory)
        playlist = await rendition.reload()
        first = playlist.segments[0]
        answer = await hls.get(first.uri)
        assert answer.status_code == 200
        assert answer.content[4:8] == b"moof"
        assert_valid(player)
    assert not (tmp_path / "rewind").exists(), "nothing is left when the packager stops"


async def test_a_stream_on_demand_is_asked_for_and_waited_for(stream: Stream, key: NewKey, clip: Path) -> None:
    """Here an encoder comes in place of the pull."""
    source = PullSource(stream=stream)
    values = {"url": "rtmp://camera.example.org/app/cam1", "when": "demand"}
    await sync_to_async(pulls.save)(Actor("test"), source, values)

    def is_wanted() -> bool:
        source.refresh_from_db()
        return source.wanted_until is not None and source.wanted_until > timezone.now()

    async with running() as hls:
        assert (await hls.get("state.json")).json()["state"] == "waiting"
        await until(is_wanted)
        index = asyncio.create_task(hls.get())
        async with ClipPublisher(hls, key.secret, clip):
            assert (await index).status_code == 200


async def test_on_demand_stream_that_does_not_begin_is_404_after_its_wait(stream: Stream) -> None:
    values = {"url": "rtmp://camera.example.org/app/cam1", "when": "demand"}
    await sync_to_async(pulls.save)(Actor("test"), PullSource(stream=stream), values)
    async with running(pulled_s=0.5) as hls:
        answer = await hls.get()
        assert (answer.status_code, answer.json()) == (404, {"detail": "The stream has not begun yet."})
        assert answer.elapsed.total_seconds() >= 0.5
