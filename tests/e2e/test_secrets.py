"""A stream key leaves no trace: not in a log, page, answer of the API, database row or Parquet file.

Nor in what the analytics make of them: tests/e2e/test_reports_page.py.
"""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.telemetry import request_flush
from tests.programs import Keys, key_url, publish, publish_whole
from tests.rtmp_client import Refused, RtmpClient
from tests.server_process import ServerProcess, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120)]

BEGUN = ("Publishing live/cam from 127.0.0.1 accepted", "Playing live/cam from 127.0.0.1 accepted")
"""How the log tells of the sessions of this module's last test; the server has others."""

WRONG = "rk_AnotherWrongKey0123456789abcdefg"


def holders(folder: Path, secret: str) -> list[Path]:
    """Files below the folder that contain the secret's bytes. Messages to workers come and go meanwhile."""
    found = []
    for file in folder.rglob("*"):
        if file.is_socket():
            continue
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            if secret.encode() in file.read_bytes():
                found.append(file)
    return found


@pytest.mark.timeout(300)
def test_stream_keys_are_in_no_file_log_or_api_answer(server: ServerProcess, keys: Keys, short_clip: Path) -> None:
    key = keys["secret"]
    for form in ("name", "query"):
        publish_whole(server, key, short_clip, url=key_url(key, server.rtmp, form))
        server.wait_for_state("live/secret", "offline")
    with pytest.raises(subprocess.CalledProcessError):
        publish("ffmpeg-debian", short_clip, f"{server.rtmp}/live/{WRONG}")
    command = ["ffmpeg", "-v", "error", "-i", f"{server.rtmp}/live?key={key['key']}/x", "-f", "null", "-"]
    subprocess.run(command, timeout=10, capture_output=True, check=False)
    assert request_flush(server.folder / "lake", wait_s=20)
    assert list((server.folder / "lake").rglob("*.parquet")), "the lake holds what was recorded"
    for secret in (key["key"], WRONG):
        assert holders(server.folder, secret) == []
        assert secret not in server.log
        for path in ("streams", "streams/live/secret", "sessions", "attempts"):
            assert secret not in str(server.request(f"/api/v1/{path}"))


def places(server: ServerProcess, secret: str) -> list[tuple[str, str, str]]:
    """(app, tcUrl, name): where an encoder or a player may put the secret, rightly or by mistake."""
    base = server.rtmp
    return [
        ("live", f"{base}/live", secret),
        ("live", f"{base}/live", f"cam?key={secret}"),
        ("live", f"{base}/live", f"cam?token={secret}&x=1"),
        (f"live?key={secret}", f"{base}/live?key={secret}", "cam"),
        (f"live/{secret}", f"{base}/live/{secret}", "cam"),
        (secret, f"{base}/{secret}", secret),
        ("live", f"rtmp://user:{secret}@127.0.0.1/live", secret),
    ]


async def present(server: ServerProcess, secret: str) -> None:
    """Publishes and plays with the secret in each place, all at once; each may be refused."""

    async def once(action: Callable[[RtmpClient, str], Awaitable[int]], app: str, tc_url: str, name: str) -> None:
        client = RtmpClient(port=server.rtmp_port, timeout_s=6.0)
        await client.open()
        with contextlib.suppress(Refused, ConnectionError, TimeoutError):
            await client.connect(app, tc_url=tc_url, flashVer=f"Encoder {secret}", pageUrl=f"http://x/?{secret}")
            stream_id = await action(client, name)
            await client.send_metadata(stream_id, {"title": secret, "width": 640})
            await client.send_audio(stream_id, 0, b"\xaf\x00\x12\x10")
        await client.close()

    actions = (RtmpClient.publish, RtmpClient.play)
    await asyncio.gather(*(once(action, *place) for action in actions for place in places(server, secret)))


def log_records(server: ServerProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in list(server.lines) if line.startswith("{")]


def journal(server: ServerProcess) -> list[dict[str, Any]]:
    """What the log says of sessions and attempts."""
    return [record for record in log_records(server) if record["logger"] == "ingest.consumers.journal"]


def test_no_key_is_in_the_most_talkative_log(server: ServerProcess, keys: Keys) -> None:
    """The server of this folder logs at level DEBUG, as JSON."""
    key = keys["cam"]["key"]
    for secret in (key, WRONG):
        asyncio.run(present(server, secret))

    def ended_sessions() -> list[dict[str, Any]] | None:
        """Those that the log accepted, when all have ended and all are written: rows come in batches, after the log."""
        accepted = {record["session_id"] for record in journal(server) if record["message"].startswith(BEGUN)}
        sessions = server.items("/api/v1/sessions?name=cam")
        ended = {session["id"] for session in sessions if session["end_reason"]}
        return sessions if accepted and accepted == ended == {session["id"] for session in sessions} else None

    sessions = wait_for(ended_sessions, timeout_s=10, what="all have ended")
    for secret in (key, WRONG):
        assert secret not in server.log
    assert "DEBUG" in {record["level"] for record in log_records(server)}
    told = journal(server)
    for session in sessions:
        accepted, ended = [record for record in told if record.get("session_id") == session["id"]]
        assert accepted["message"].startswith(BEGUN)
        assert ended["reason"] == session["end_reason"]
        assert accepted["connection"] == ended["connection"]
    reasons = {attempt["reason"] for attempt in server.items("/api/v1/attempts")}
    assert reasons
    assert reasons <= {record.get("reason") for record in told}
