"""Real encoders publish, real players play: what arrives equals what was sent, byte for byte."""

import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from tests.e2e import accepted
from tests.e2e.clips import Clips
from tests.e2e.conftest import CLIP_S
from tests.e2e.programs import PUBLISHERS, Keys, key_url, publishing
from tests.e2e.rounds import PLANS, Rounds
from tests.media import is_run_of, of_kind, read_packets
from tests.rtmpdecode import decode_stream
from tests.server_process import ServerProcess, wait_for
from tests.wiretap.proxy import Connection

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(240)]

PLAYED = [(name, player) for name, plan in PLANS.items() for player in plan.players]


@pytest.mark.parametrize(("name", "player"), PLAYED)
def test_players_that_wait_get_every_packet_from_the_first(
    rounds: Rounds, clips: Clips, name: str, player: str
) -> None:
    """Of the first track of each kind: none of these programs says in `connect` that it knows of others."""
    received = rounds[name].by_player[player]
    sent = read_packets(str(clips[PLANS[name].clip]))
    for kind in ("video", "audio"):
        packets = of_kind(received, kind)
        assert len(packets) > 120 / len({(packet.kind, packet.track) for packet in sent})
        assert is_run_of(packets, of_kind(sent, kind)) == 0
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


def test_a_player_that_joins_later_starts_at_a_keyframe(server: ServerProcess, keys: Keys, clip: Path) -> None:
    began = time.monotonic()
    sending = publishing(clip, key_url(keys["joined"], server.rtmp, "name"), "-stream_loop", "-1")
    with accepted.on_air(server, "live/joined", sending):
        wait_for(
            lambda: server.stream("live/joined")["keyframe_interval"],
            timeout_s=10,
            what="a second keyframe has come",
        )
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


def test_a_session_is_recorded_with_its_totals_and_events(server: ServerProcess, keys: Keys, short_clip: Path) -> None:
    url = key_url(keys["recorded"], server.rtmp, "name")
    accepted.whole(server, partial(PUBLISHERS["ffmpeg-debian"].publish, short_clip, url))

    def ended() -> dict[str, object] | None:
        found = server.items("/api/v1/sessions?app=live&name=recorded&kind=publish")
        return found[0] if found and found[0]["ended_at"] else None

    session = wait_for(ended, timeout_s=10, what="the session has ended")
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
    wait_for(
        lambda: len(server.items(f"/api/v1/attempts?reason={reason}")) == known + 1, timeout_s=20, what="the attempt"
    )


def test_a_second_publisher_is_refused_and_the_first_goes_on(server: ServerProcess, keys: Keys, clip: Path) -> None:
    url = key_url(keys["busy"], server.rtmp, "name")
    with accepted.on_air(server, "live/busy", publishing(clip, url, "-stream_loop", "-1")) as (_, live):
        second = subprocess.run(publishing(clip, url), timeout=30, capture_output=True)
        assert second.returncode != 0
        assert server.stream("live/busy")["session_id"] == live["session_id"]
        attempts = wait_for(lambda: server.items("/api/v1/attempts?reason=busy"), timeout_s=20, what="the attempt")
    assert [attempt["name"] for attempt in attempts] == ["busy"]


def test_revoking_the_key_in_another_process_ends_the_session(server: ServerProcess, keys: Keys, clip: Path) -> None:
    """How soon: see tests/production/test_form.py, which measures it."""
    sending = publishing(clip, key_url(keys["revoked"], server.rtmp, "name"), "-stream_loop", "-1")
    with accepted.on_air(server, "live/revoked", sending) as (_, live):
        session = live["session_id"]
        server.manage("streamkey", "revoke", "live/revoked")
        wait_for(lambda: has_ended(server, session), timeout_s=20, what="the session has ended")
    assert server.request(f"/api/v1/sessions/{session}")[1]["end_reason"] == "key_revoked"


def has_ended(server: ServerProcess, session: str) -> bool:
    return server.request(f"/api/v1/sessions/{session}")[1]["ended_at"] is not None
