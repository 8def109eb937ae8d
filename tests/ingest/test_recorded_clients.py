"""Programs in common use play recordings: whole, from a start to a stop, by seeking, and go on with what they have."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import av
import imageio_ffmpeg
import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.core.management import call_command

from ingest.flv import FlvWriter, TagReader, decode_metadata
from ingest.flv.tags import MEDIA_TYPES, tag_bytes
from ingest.models import Application, Attempt, Recording, Session
from ingest.rtmp import events
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.services import media_urls
from ingest.services.history_writer import HistoryWriter
from tests.ingest.control import listening
from tests.ingest.ticks import until
from tests.media import Packet, is_run_of, make_clip, of_kind, read_packets
from tests.programs import PLAYERS
from tests.rtmp_client import RtmpClient
from tests.tools import VLC_USER, require_tool

pytestmark = pytest.mark.django_db(transaction=True)

FFMPEGS = {"debian": "ffmpeg", "imageio": imageio_ffmpeg.get_ffmpeg_exe()}
RUN_S = 40


def record(source: Path, target: Path) -> Path:
    """As the server's own recordings are: with an index."""
    with source.open("rb") as given, target.open("wb") as out:
        writer = None
        for tag in TagReader().read(given):
            if writer is None:
                writer = FlvWriter.begin(out, decode_metadata(tag.payload, DEFAULT_LIMITS) or {})
            else:
                writer.write(tag.type_id, tag.timestamp, tag.payload)
        assert writer is not None
        writer.finish()
    return target


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six seconds of H.264 and AAC with a keyframe each second."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clip") / "clip.flv", seconds=6)


@pytest.fixture
def recording(clip: Path, settings: Any, tmp_path: Path, process: HistoryWriter) -> Recording:
    """Six seconds with a keyframe each second, of a stream that is not there."""
    settings.RECORDINGS_DIR = tmp_path
    record(clip, tmp_path / "film.flv")
    application = Application.objects.create(name="live", play_recordings="as_live")
    return Recording.objects.create(
        application=application, name="film", file="film.flv", state=Recording.State.COMPLETE, duration_ms=6000
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """What a program makes of it."""
    return tmp_path / "out.flv"


@pytest_asyncio.fixture
async def url(recording: Recording) -> AsyncIterator[str]:
    async with listening() as port:
        yield f"rtmp://127.0.0.1:{port}/live"


async def run(*command: str, user: str | None = None, output: Path | None = None) -> int:
    """The program's exit code."""

    def work() -> int:
        with open(output or os.devnull, "wb") as out:
            return subprocess.run(command, stdout=out, timeout=RUN_S, user=user, check=False).returncode

    return await asyncio.to_thread(work)


async def packets(path: Path) -> list[Packet]:
    """Of a file as a player made it. Its data messages are taken out: onPlayStatus, the last of them, is a third track
    for FFmpeg's demuxer, which PyAV does not expect so late.
    """

    def read() -> list[Packet]:
        plain = path.with_suffix(".plain.flv")
        tags = list(TagReader().feed(path.read_bytes()))
        media = [tag_bytes(tag.type_id, tag.timestamp, tag.payload) for tag in tags if tag.type_id in MEDIA_TYPES]
        plain.write_bytes(path.read_bytes()[:13] + b"".join(media))
        return read_packets(str(plain))

    return await asyncio.to_thread(read)


async def times(path: Path) -> dict[str, list[float]]:
    """Of the packets, by kind."""

    def read() -> dict[str, list[float]]:
        found: dict[str, list[float]] = {"video": [], "audio": []}
        with av.open(str(path)) as container:
            for packet in container.demux():
                if packet.size and packet.dts is not None and packet.stream.type in found:
                    found[packet.stream.type].append(float(packet.dts * packet.time_base))
        return found

    return await asyncio.to_thread(read)


async def the_session() -> Session:
    await until(Session.objects.filter(ended_at__isnull=False).exists)
    return await Session.objects.aget()


def same(found: list[Packet], whole: list[Packet]) -> bool:
    return all(of_kind(found, kind) == of_kind(whole, kind) for kind in ("video", "audio"))


async def test_only_a_signed_link_plays_a_protected_recording_in_ffmpeg(
    url: str, recording: Recording, clip: Path, out: Path, settings: Any
) -> None:
    """An application's recordings are not open to anyone, whoever may play what is live there."""
    require_tool("ffmpeg")
    await Application.objects.aupdate(play_recordings="signed")
    settings.RTMP_ADDRESS = ("127.0.0.1", urlsplit(url).port)
    link = await sync_to_async(media_urls.make_recording_link)(recording)
    for given, plays in ((f"{url}/film", False), (f"{url}/film?token=guessed", False), (link.play_url, True)):
        assert (await run("ffmpeg", "-v", "quiet", "-y", "-i", given, "-c", "copy", str(out)) == 0) is plays
    assert same(await packets(out), await packets(clip))
    await until(lambda: Attempt.objects.filter(name="film").count() == 2)
    reasons = Attempt.objects.order_by("pk").values_list("reason", flat=True)
    assert [reason async for reason in reasons] == ["token_missing", "token_invalid"]


@pytest.mark.parametrize(("unit", "least_ms", "most_ms"), [("s", 1900, 2000), ("ms", 0, 100)])
async def test_start_and_duration_are_of_the_applications_unit(
    url: str, unit: str, least_ms: int, most_ms: int
) -> None:
    """From the operator's setting to what is sent: 2 of them, from 1 on."""
    await sync_to_async(call_command)("application", "set", "live", "--play-start-unit", unit, stdout=StringIO())
    async with RtmpClient(port=urlsplit(url).port or 0) as player:
        await player.connect("live")
        stream_id = await player.create_stream()
        player.protocol.play(stream_id, "film", 1.0, 2.0)
        await player.flush()
        await player.wait_for(events.StatusReceived, lambda status: status.code == "NetStream.Play.Stop")
        times = [event.timestamp for event in player.of(events.VideoReceived)]
    assert least_ms <= max(times) < most_ms


@pytest.mark.parametrize("name", FFMPEGS)
async def test_ffmpeg_plays_a_recording_to_its_end(url: str, clip: Path, out: Path, name: str) -> None:
    require_tool("ffmpeg")
    command = [FFMPEGS[name], "-v", "error", "-rtmp_buffer", "60000", "-i", f"{url}/film", "-c", "copy", str(out)]
    assert await run(*command) == 0
    assert same(await packets(out), await packets(clip))
    session = await the_session()
    assert (session.end_reason, session.name, session.stream_id) == ("completed", "film", None)
    assert (session.video_frames, session.keyframes) == (180, 6)


@pytest.mark.parametrize("name", FFMPEGS)
async def test_ffmpeg_seeks(url: str, clip: Path, out: Path, name: str) -> None:
    """Its own buffer, three seconds; what it writes begins at the keyframe before 4.5 s."""
    require_tool("ffmpeg")
    command = [FFMPEGS[name], "-v", "error", "-ss", "4.5", "-i", f"{url}/film", "-c", "copy", "-copyts", str(out)]
    assert await run(*command) == 0
    video, whole = of_kind(await packets(out), "video"), of_kind(await packets(clip), "video")
    assert video == whole[120:]
    assert (await times(out))["video"][0] == pytest.approx(4.0, abs=0.05)


async def test_ffmpeg_receives_its_buffer_at_once_and_the_rest_in_real_time(url: str, out: Path) -> None:
    """Two seconds of media take none to come, the whole takes what is left after the buffer of 3 s."""
    require_tool("ffmpeg")
    began = asyncio.get_running_loop().time()
    assert await run("ffmpeg", "-v", "error", "-i", f"{url}/film", "-c", "copy", str(out)) == 0
    assert 2 < asyncio.get_running_loop().time() - began < 6


@pytest.mark.parametrize("name", ["film", "flv:film", "mp4:film.mp4", "film.flv"])
async def test_rtmpdump_downloads(url: str, clip: Path, out: Path, name: str) -> None:
    """As fast as it goes, by any spelling of the name."""
    require_tool("rtmpdump")
    assert await run("rtmpdump", "-q", "-r", url, "-y", name, "-o", str(out)) == 0
    assert same(await packets(out), await packets(clip))


async def test_rtmpdump_from_a_start_to_a_stop(url: str, clip: Path, out: Path) -> None:
    """Its timestamps are the film's. It calls the file incomplete (2), as the film has not ended there."""
    require_tool("rtmpdump")
    command = ["rtmpdump", "-q", "-r", f"{url}/film", "--start", "2", "--stop", "4", "-o", str(out)]
    assert await run(*command) == 2
    found, whole = await packets(out), of_kind(await packets(clip), "video")
    assert is_run_of(of_kind(found, "video"), whole) in (30, 60)
    told = await times(out)
    assert told["video"][0] == pytest.approx(2.0, abs=0.05)
    assert 3.9 < told["video"][-1] < 4


async def test_rtmpdump_resumes(url: str, tmp_path: Path, out: Path) -> None:
    """What was interrupted becomes the same file, byte by byte."""
    require_tool("rtmpdump")
    whole, out = tmp_path / "whole.flv", tmp_path / "out.flv"
    assert await run("rtmpdump", "-q", "-r", f"{url}/film", "-o", str(whole)) == 0
    content = await asyncio.to_thread(whole.read_bytes)
    tags = list(TagReader().feed(content))
    await asyncio.to_thread(out.write_bytes, content[: tags[len(tags) // 2].offset])
    assert await run("rtmpdump", "-q", "-r", f"{url}/film", "--resume", "-o", str(out)) == 0
    assert await asyncio.to_thread(out.read_bytes) == content


async def test_rtmp2src_plays_to_the_end(url: str, clip: Path, out: Path) -> None:
    """It ends by itself, at StreamEOF, for which it lets go of a message that it has not handed on yet."""
    for tool in ("gst-launch-1.0", "rtmp2src"):
        require_tool(tool)
    pipeline = ["rtmp2src", f"location={url}/film", "!", "filesink", f"location={out}"]
    assert await run("gst-launch-1.0", "-q", *pipeline) == 0
    found, whole = await packets(out), await packets(clip)
    for kind in ("audio", "video"):
        part, all_of_it = of_kind(found, kind), of_kind(whole, kind)
        assert part == all_of_it[: len(part)]
        assert len(part) >= len(all_of_it) - 2


async def test_vlc_plays_to_the_end(url: str, clip: Path, out: Path) -> None:
    for tool in ("cvlc", "avio", "demuxdump"):
        require_tool(tool)
    command = PLAYERS["vlc"].command(f"{url}/film", out)
    assert await run(*command, user=VLC_USER, output=out) == 0
    assert same(await packets(out), await packets(clip))


async def test_play_of_a_name_never_recorded_fails_and_is_an_attempt(url: str) -> None:
    require_tool("rtmpdump")
    assert await run("rtmpdump", "-q", "-r", f"{url}/other", "-o", os.devnull) == 1
    await until(Attempt.objects.filter(reason="stream_unknown", name="other").exists)
