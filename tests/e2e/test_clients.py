"""Real encoders publish, real players play: what arrives equals what was sent, byte for byte.

Wireshark's dissector finds no fault with it, and reads the same messages as another decoder. What it can't read:
`tests/wiretap/tshark.py`.
"""

import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.conftest import CLIP_S
from tests.e2e.rounds import PLANS, Clips, Rounds
from tests.media import assert_begins, is_run_of, of_kind, read_packets
from tests.programs import PUBLISHERS, Keys, key_url, on_air, publish_whole, publishing
from tests.rtmpdecode import decode_stream
from tests.server_process import ServerProcess, wait_for
from tests.tools import require_tool
from tests.wiretap.proxy import Connection, Piece, recorded
from tests.wiretap.tshark import agrees, assert_no_fault, dissect, messages

# The first test plays all rounds at once, in real time, once every player waits: see `rounds.play_round`.
pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(240)]

PLAYED = [(name, player) for name, plan in PLANS.items() for player in plan.players]


@pytest.mark.parametrize(("name", "player"), PLAYED)
def test_players_that_wait_get_every_packet_from_the_first(
    rounds: Rounds, clips: Clips, name: str, player: str
) -> None:
    """Of the first track of each kind: none of these programs says in `connect` that it knows of others."""
    received = rounds[name].by_player[player]
    sent = read_packets(str(clips[PLANS[name].clip]))
    assert_begins(received, sent, least=120 // len({(packet.kind, packet.track) for packet in sent}))
    assert {packet.track for packet in received} == {0}


@pytest.mark.parametrize("name", PLANS)
def test_messages_reach_players_as_they_were_sent(rounds: Rounds, name: str) -> None:
    """With their headers, in their order, whatever the codec; but for those of other tracks."""
    connections = rounds[name].connections
    (sent,) = [found for it in connections if (found := media_of(it, from_client=True))]
    plain = [(type_id, payload) for type_id, payload in sent if not has_tracks(type_id, payload)]
    assert (len(plain) < len(sent)) == (PLANS[name].clip == "tracks")
    for received in [found for it in connections if (found := media_of(it, from_client=False))]:
        assert received == plain[: len(received)]


def has_tracks(type_id: int, payload: bytes) -> bool:
    """Multitrack of Enhanced RTMP: packet type 6 of video, 5 of sound."""
    return payload[:1] in ((b"\x96", b"\xa6", b"\xd6") if type_id == 9 else (b"\x95",))


def media_of(connection: Connection, *, from_client: bool) -> list[tuple[int, bytes]]:
    """(type id, payload) of all audio and video."""
    messages = decode_stream(connection.sent(from_client=from_client))
    return [(message.type_id, message.payload) for message in messages if message.type_id in (8, 9)]


@pytest.mark.journey
def test_a_player_that_joins_later_starts_at_a_keyframe(server: ServerProcess, keys: Keys, clip: Path) -> None:
    began = time.monotonic()
    with on_air(server, keys["joined"], clip):
        wait_for(lambda: server.stream("live/joined")["keyframe_interval"], timeout_s=10, what="a second keyframe")
        packets = read_packets(f"{server.rtmp}/live/joined", limit=80)
    took_s = time.monotonic() - began
    sent = [packet for packet in read_packets(str(clip)) if packet.kind == "video"] * 2
    video = [packet for packet in packets if packet.kind == "video"]
    assert {packet.kind for packet in packets} == {"video", "audio"}, "FFmpeg takes the metadata for no track"
    assert video[0].is_keyframe
    start = is_run_of([packet.data for packet in video], [packet.data for packet in sent])
    assert start >= 0
    assert start > 0 or took_s > CLIP_S, "it got what was sent before it came"
    assert sent[start].is_keyframe


@pytest.mark.journey
def test_a_session_is_recorded_with_its_totals_and_events(server: ServerProcess, keys: Keys, short_clip: Path) -> None:
    publish_whole(server, keys["recorded"], short_clip)
    session = server.wait_for_end("live/recorded")
    sent = read_packets(str(short_clip))
    assert session["end_reason"] == "client_unpublish"
    assert session["video_frames"] == len(of_kind(sent, "video"))
    assert session["audio_frames"] == len(of_kind(sent, "audio"))
    assert session["keyframes"] == sum(packet.is_keyframe for packet in sent if packet.kind == "video")
    assert (session["width"], session["height"]) == (640, 360)
    events = server.items(f"/api/v1/sessions/{session['id']}/events")
    assert "NetStream.Publish.Start" in {event["code"] for event in events}
    sequences = [event["sequence"] for event in events]
    assert sorted(sequences) == list(range(min(sequences), max(sequences) + 1))


@pytest.mark.journey
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
    done = subprocess.run(publishing(clip, f"{server.rtmp}/{path}"), timeout=20, capture_output=True)
    assert done.returncode != 0

    def is_written() -> bool:
        return len(server.items(f"/api/v1/attempts?reason={reason}")) == known + 1

    wait_for(is_written, timeout_s=20, what="the attempt")


@pytest.mark.journey
def test_a_second_publisher_is_refused_and_the_first_goes_on(server: ServerProcess, keys: Keys, clip: Path) -> None:
    with on_air(server, keys["busy"], clip) as (_, live):
        second = subprocess.run(publishing(clip, key_url(keys["busy"], server.rtmp)), timeout=30, capture_output=True)
        assert second.returncode != 0
        assert server.stream("live/busy")["session_id"] == live["session_id"]
        attempts = wait_for(lambda: server.items("/api/v1/attempts?reason=busy"), timeout_s=20, what="the attempt")
    assert [attempt["name"] for attempt in attempts] == ["busy"]


@pytest.mark.journey
def test_revoking_the_key_in_another_process_ends_the_session(server: ServerProcess, keys: Keys, clip: Path) -> None:
    """How soon: see tests/production/test_form.py, which measures it."""
    with on_air(server, keys["revoked"], clip) as (_, live):
        server.manage("streamkey", "revoke", "live/revoked")
        assert server.wait_for_end("live/revoked", live["session_id"])["end_reason"] == "key_revoked"


# --- Wireshark's dissector ---

CHUNK_BYTES = 60_000
"""The server's; a message of more has chunks of type 3."""

VIDEO, COMMAND = 9, 20


@pytest.mark.parametrize("name", PLANS)
def test_wireshark_finds_no_fault_in_encoder_and_player_connections(rounds: Rounds, tmp_path: Path, name: str) -> None:
    connections = rounds[name].connections
    assert len(connections) == 1 + len(PLANS[name].players)
    assert_no_fault(tmp_path / "round.pcap", connections)
    for connection in connections:
        media = [messages(connection, from_client=side).count(VIDEO) for side in (True, False)]
        assert min(media) == 0, "each publishes or plays"
        assert max(media) > 60


def test_recorded_connections_contain_multi_chunk_messages_both_ways(rounds: Rounds) -> None:
    """Both ways, keyframes take more than one."""
    connections = rounds["rtmp2sink"].connections + rounds["rtmpsink"].connections
    longest = {
        side: max(len(message.payload) for it in connections for message in decode_stream(it.sent(from_client=side)))
        for side in (True, False)
    }
    assert min(longest.values()) > CHUNK_BYTES


def refusal(server: ServerProcess, clip: Path, publisher: str) -> Connection:
    for tool in PUBLISHERS[publisher].tools:
        require_tool(tool)
    with recorded(server.rtmp) as proxy, pytest.raises(subprocess.CalledProcessError):
        PUBLISHERS[publisher].publish(clip, f"{proxy.url}/live/rk_00000000000000000000000000000000")
    (connection,) = proxy.connections
    return connection


@pytest.mark.parametrize("publisher", ["ffmpeg-debian", "ffmpeg-imageio", "rtmp2sink", "rtmpsink"])
def test_wireshark_finds_no_fault_in_a_refused_connection(
    server: ServerProcess, clip: Path, tmp_path: Path, publisher: str
) -> None:
    connection = refusal(server, clip, publisher)
    assert_no_fault(tmp_path / "refusal.pcap", [connection])
    assert messages(connection, from_client=False).count(COMMAND) >= 2, "the answer to connect, and the refusal"


FAULTS = {
    "a type that no one knows": bytes.fromhex("02 000000 000004 63 00000000 00000000"),
    "a string that goes past its command's end": bytes.fromhex("03 000000 000006 14 00000000 02ffff616263"),
    "a user control message without its type": bytes.fromhex("02 000000 000001 04 00000000 00"),
    "a window of two bytes": bytes.fromhex("02 000000 000002 05 00000000 0000"),
}
"""What the dissector finds when there is something to find."""


@pytest.fixture(scope="module")
def refused(server: ServerProcess, clip: Path) -> Connection:
    """A connection without a fault."""
    return refusal(server, clip, "ffmpeg-debian")


@pytest.mark.parametrize("fault", FAULTS)
def test_wireshark_check_detects_an_injected_fault(refused: Connection, tmp_path: Path, fault: str) -> None:
    faulty = replace(refused, pieces=[*refused.pieces, Piece(from_client=False, data=FAULTS[fault])])
    (dissected,) = dissect(tmp_path / "faulty.pcap", [faulty])
    assert len(dissected.complaints) == 1


def test_wireshark_check_detects_a_lost_byte(refused: Connection, tmp_path: Path) -> None:
    """The messages after it differ from what was sent."""
    answer = next(at for at, piece in enumerate(refused.pieces) if not piece.from_client and b"_result" in piece.data)
    pieces = list(refused.pieces)
    pieces[answer] = replace(pieces[answer], data=pieces[answer].data.replace(b"_result", b"_esult", 1))
    (dissected,) = dissect(tmp_path / "faulty.pcap", [replace(refused, pieces=pieces)])
    assert dissected.complaints or not agrees(dissected, refused)
