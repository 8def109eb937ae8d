"""Wireshark's dissector finds no fault with what passes between real clients and the server, and reads the same
messages as another decoder. What the dissector can't read: `tests/wiretap/tshark.py`.
"""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.programs import PUBLISHERS
from tests.e2e.rounds import PLANS, Rounds
from tests.rtmpdecode import decode_stream
from tests.server_process import ServerProcess
from tests.tools import require_tool
from tests.wiretap.proxy import Connection, Piece, recorded
from tests.wiretap.tshark import agrees, assert_no_fault, dissect, messages

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(240)]

CHUNK_BYTES = 60_000
"""The server's; a message of more has chunks of type 3."""

VIDEO, COMMAND = 9, 20


@pytest.mark.parametrize("name", PLANS)
def test_no_fault_is_found_with_encoders_and_players(rounds: Rounds, tmp_path: Path, name: str) -> None:
    connections = rounds[name].connections
    assert len(connections) == 1 + len(PLANS[name].players)
    assert_no_fault(tmp_path / "round.pcap", connections)
    for connection in connections:
        media = [messages(connection, from_client=side).count(VIDEO) for side in (True, False)]
        assert min(media) == 0, "each publishes or plays"
        assert max(media) > 60


def test_chunks_of_several_sizes_are_among_them(rounds: Rounds) -> None:
    """Both ways, keyframes take more than one."""
    connections = rounds["rtmp2sink"].connections + rounds["rtmpsink"].connections
    longest = {
        side: max(len(message.payload) for it in connections for message in decode_stream(it.sent(from_client=side)))
        for side in (True, False)
    }
    assert min(longest.values()) > CHUNK_BYTES


@pytest.mark.parametrize("publisher", ["ffmpeg-debian", "ffmpeg-imageio", "rtmp2sink", "rtmpsink"])
def test_no_fault_is_found_with_a_refusal(server: ServerProcess, clip: Path, tmp_path: Path, publisher: str) -> None:
    for tool in PUBLISHERS[publisher].tools:
        require_tool(tool)
    with recorded(server.rtmp) as proxy, pytest.raises(subprocess.CalledProcessError):
        PUBLISHERS[publisher].publish(clip, f"{proxy.url}/live/rk_00000000000000000000000000000000")
    (connection,) = proxy.connections
    assert_no_fault(tmp_path / "refusal.pcap", [connection])
    assert messages(connection, from_client=False).count(COMMAND) >= 2, "the answer to connect, and the refusal"


# --- What the dissector finds when there is something to find ---

FAULTS = {
    "a type that no one knows": bytes.fromhex("02 000000 000004 63 00000000 00000000"),
    "a string that goes past its command's end": bytes.fromhex("03 000000 000006 14 00000000 02ffff616263"),
    "a user control message without its type": bytes.fromhex("02 000000 000001 04 00000000 00"),
    "a window of two bytes": bytes.fromhex("02 000000 000002 05 00000000 0000"),
}


@pytest.fixture(scope="module")
def refused(server: ServerProcess, clip: Path) -> Connection:
    """A connection without a fault."""
    with recorded(server.rtmp) as proxy, pytest.raises(subprocess.CalledProcessError):
        PUBLISHERS["ffmpeg-debian"].publish(clip, f"{proxy.url}/live/rk_00000000000000000000000000000000")
    return proxy.connections[0]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(refused: Connection, tmp_path: Path, fault: str) -> None:
    last = refused.pieces[-1].at
    faulty = replace(refused, pieces=[*refused.pieces, Piece(last, from_client=False, data=FAULTS[fault])])
    (dissected,) = dissect(tmp_path / "faulty.pcap", [faulty])
    assert len(dissected.complaints) == 1


def test_a_lost_byte_is_found(refused: Connection, tmp_path: Path) -> None:
    """The messages after it differ from what was sent."""
    answer = next(at for at, piece in enumerate(refused.pieces) if not piece.from_client and b"_result" in piece.data)
    pieces = list(refused.pieces)
    pieces[answer] = replace(pieces[answer], data=pieces[answer].data.replace(b"_result", b"_esult", 1))
    (dissected,) = dissect(tmp_path / "faulty.pcap", [replace(refused, pieces=pieces)])
    assert dissected.complaints or not agrees(dissected, refused)
