"""Real encoders publish, real players play: what arrives equals what was sent, byte for byte."""

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import av
import imageio_ffmpeg
import pytest

from tests.media import Packet, is_run_of, of_kind, read_packets
from tests.server_process import ServerProcess, program, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120), pytest.mark.xdist_group("e2e")]

Publisher = Callable[[Path, str], None]
Player = Callable[[str, Path], list[str]]


def ffmpeg_publisher(executable: str) -> Publisher:
    def publish(clip: Path, url: str) -> None:
        subprocess.run(
            [executable, "-v", "error", "-re", "-i", str(clip), "-c", "copy", "-f", "flv", url], check=True, timeout=60
        )

    return publish


def pyav_publisher(clip: Path, url: str) -> None:
    """Remux at the clip's pace, as an encoder would send."""
    with av.open(str(clip)) as source, av.open(url, "w", format="flv") as target:
        streams = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        start = time.monotonic()
        for packet in source.demux():
            if packet.dts is None:
                continue
            ahead = float(packet.dts * packet.time_base) - (time.monotonic() - start)
            if ahead > 0:
                time.sleep(ahead)  # The pace of the media itself, not a wait for a condition.
            packet.stream = streams[packet.stream.index]
            target.mux(packet)


PUBLISHERS: dict[str, Callable[[], Publisher]] = {
    "ffmpeg-debian": lambda: ffmpeg_publisher("ffmpeg"),
    "ffmpeg-imageio": lambda: ffmpeg_publisher(imageio_ffmpeg.get_ffmpeg_exe()),
    "pyav": lambda: pyav_publisher,
}

PLAYERS: dict[str, Player] = {
    "ffmpeg": lambda url, out: ["ffmpeg", "-v", "error", "-i", url, "-t", "4", "-c", "copy", "-f", "flv", str(out)],
    "rtmpdump": lambda url, out: ["rtmpdump", "-q", "--live", "-r", url, "-o", str(out)],
}


def key_url(key: dict[str, str], server: ServerProcess, form: str) -> str:
    app, name = key["stream"].split("/", 1)
    base = f"{server.rtmp}/{app}"
    return {"name": f"{base}/{key['key']}", "query": f"{base}/{name}?key={key['key']}"}[form]


@dataclass
class Round:
    """One publisher in one form, and the packets that each player had asked for before it began."""

    by_player: dict[str, list[Packet]]


ROUNDS = [(publisher, form) for publisher in PUBLISHERS for form in ("name", "query")]


def play_round(server: ServerProcess, clip: Path, folder: Path, publisher: str, form: str) -> Round:
    name = f"{publisher}-{form}"
    key = server.create_key(f"live/{name}")
    url = f"{server.rtmp}/live/{name}"
    outputs = {player: folder / f"{name}-{player}.flv" for player in PLAYERS}
    with (
        ThreadPoolExecutor(1) as pool,
        program(*PLAYERS["ffmpeg"](url, outputs["ffmpeg"])) as ffmpeg,
        program(*PLAYERS["rtmpdump"](url, outputs["rtmpdump"])) as rtmpdump,
    ):
        by_pyav = pool.submit(read_packets, url, limit=200, timeout_s=60)
        wait_for(lambda: server.stream(f"live/{name}")["players"] == 3, timeout_s=30, what="three players wait")
        assert server.stream(f"live/{name}")["state"] == "waiting"
        PUBLISHERS[publisher]()(clip, key_url(key, server, form))
        assert ffmpeg.wait(30) == 0
        rtmpdump.send_signal(signal.SIGINT)  # It plays until it is told to end, and then closes its file.
        rtmpdump.wait(20)
        packets = {"pyav": by_pyav.result(30)}
    return Round(packets | {player: read_packets(str(path)) for player, path in outputs.items()})


@pytest.fixture(scope="module")
def rounds(server: ServerProcess, clip: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Round]:
    """All rounds at once, each on a stream of its own."""
    folder = tmp_path_factory.mktemp("rounds")
    with ThreadPoolExecutor(len(ROUNDS)) as pool:
        running = {which: pool.submit(play_round, server, clip, folder, *which) for which in ROUNDS}
        return {which: future.result() for which, future in running.items()}


@pytest.mark.parametrize(("publisher", "form"), ROUNDS)
@pytest.mark.parametrize("player", ["ffmpeg", "rtmpdump", "pyav"])
def test_players_that_wait_get_every_packet_from_the_first(
    rounds: dict[tuple[str, str], Round], clip: Path, publisher: str, form: str, player: str
) -> None:
    sent = read_packets(str(clip))
    received = rounds[publisher, form].by_player[player]
    for kind in ("video", "audio"):
        packets = of_kind(received, kind)
        assert len(packets) > 60
        assert is_run_of(packets, of_kind(sent, kind)) == 0


def test_a_player_that_joins_later_starts_at_a_keyframe(server: ServerProcess, clip: Path, tmp_path: Path) -> None:
    key = server.create_key("live/joined")
    publish = threading.Thread(target=PUBLISHERS["ffmpeg-debian"](), args=(clip, key_url(key, server, "name")))
    publish.start()
    wait_for(
        lambda: server.stream("live/joined")["keyframe_interval"],
        timeout_s=10,
        what="a second keyframe has come",
    )
    packets = read_packets(f"{server.rtmp}/live/joined", limit=80)
    publish.join()
    sent = [packet for packet in read_packets(str(clip)) if packet.kind == "video"]
    video = [packet for packet in packets if packet.kind == "video"]
    assert video[0].is_keyframe
    start = is_run_of([packet.data for packet in video], [packet.data for packet in sent])
    assert start > 0
    assert sent[start].is_keyframe


def test_a_session_is_recorded_with_its_totals_and_events(server: ServerProcess, clip: Path) -> None:
    key = server.create_key("live/recorded")
    PUBLISHERS["ffmpeg-debian"]()(clip, key_url(key, server, "name"))

    def ended() -> dict[str, object] | None:
        found = server.items("/api/v1/sessions?app=live&name=recorded&kind=publish")
        return found[0] if found and found[0]["ended_at"] else None

    session = wait_for(ended, timeout_s=10, what="the session has ended")
    sent = read_packets(str(clip))
    assert session["end_reason"] == "client_unpublish"
    assert session["video_frames"] == len(of_kind(sent, "video"))
    assert session["audio_frames"] == len(of_kind(sent, "audio"))
    assert session["keyframes"] == sum(packet.is_keyframe for packet in sent if packet.kind == "video")
    assert (session["width"], session["height"]) == (640, 360)
    events = server.items(f"/api/v1/sessions/{session['id']}/events")
    assert "NetStream.Publish.Start" in {event["code"] for event in events}
    sequences = [event["sequence"] for event in events]
    assert sorted(sequences) == list(range(min(sequences), max(sequences) + 1))


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("live/no-such-key", "key_unknown"),
        ("live/demo?key=rk_00000000000000000000000000000000", "key_unknown"),
        ("nowhere/anything", "unknown_app"),
    ],
)
def test_a_refused_publisher_ends_at_once_and_is_recorded_with_the_reason(
    server: ServerProcess, clip: Path, path: str, reason: str
) -> None:
    known = len(server.items(f"/api/v1/attempts?reason={reason}"))
    done = subprocess.run(
        ["ffmpeg", "-v", "error", "-re", "-i", str(clip), "-c", "copy", "-f", "flv", f"{server.rtmp}/{path}"],
        timeout=20,
        capture_output=True,
    )
    assert done.returncode != 0
    wait_for(
        lambda: len(server.items(f"/api/v1/attempts?reason={reason}")) == known + 1, timeout_s=5, what="the attempt"
    )


def test_a_second_publisher_is_refused_and_the_first_goes_on(server: ServerProcess, clip: Path) -> None:
    key = server.create_key("live/busy")
    url = key_url(key, server, "name")
    first = threading.Thread(target=PUBLISHERS["ffmpeg-debian"](), args=(clip, url))
    first.start()
    session = server.wait_for_state("live/busy", "live")["session_id"]
    second = subprocess.run(
        ["ffmpeg", "-v", "error", "-re", "-i", str(clip), "-c", "copy", "-f", "flv", url],
        timeout=20,
        capture_output=True,
    )
    assert second.returncode != 0
    assert server.stream("live/busy")["session_id"] == session
    attempts = wait_for(lambda: server.items("/api/v1/attempts?reason=busy"), timeout_s=5, what="the attempt")
    assert [attempt["name"] for attempt in attempts] == ["busy"]
    first.join()


def test_revoking_the_key_in_another_process_ends_the_session_within_two_seconds(
    server: ServerProcess, clip: Path
) -> None:
    key = server.create_key("live/revoked")
    with program("ffmpeg", "-v", "error", "-re", "-stream_loop", "-1", "-i", str(clip), "-c", "copy", "-f", "flv",
                 key_url(key, server, "name")):  # fmt: skip
        session = server.wait_for_state("live/revoked", "live")["session_id"]
        server.manage("streamkey", "revoke", "live/revoked")
        revoked = time.monotonic()
        wait_for(lambda: has_ended(server, session), timeout_s=5, what="the session has ended")
        assert time.monotonic() - revoked < 2.5
    assert server.request(f"/api/v1/sessions/{session}")[1]["end_reason"] == "key_revoked"


def has_ended(server: ServerProcess, session: str) -> bool:
    return server.request(f"/api/v1/sessions/{session}")[1]["ended_at"] is not None
