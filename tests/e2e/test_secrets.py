"""A stream key leaves no trace: not in a log, page, answer of the API, database row or Parquet file."""

import asyncio
import contextlib
import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_clients import PUBLISHERS, key_url
from tests.rtmp_client import Refused, RtmpClient
from tests.server_process import ServerProcess, program, running, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120), pytest.mark.xdist_group("e2e")]

WRONG = "rk_AnotherWrongKey0123456789abcdefg"


def holders(folder: Path, secret: str) -> list[Path]:
    """Files below the folder that contain the secret's bytes."""
    return [file for file in folder.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


def test_keys_are_nowhere(server: ServerProcess, clip: Path) -> None:
    key = server.create_key("live/secret")
    for form in ("name", "query"):
        PUBLISHERS["ffmpeg-debian"]()(clip, key_url(key, server, form))
        wait_for(
            lambda: server.stream("live/secret")["state"] == "offline", timeout_s=10, what="the publisher has gone"
        )
    wrong_url = f"{server.rtmp}/live/{WRONG}"
    with program("ffmpeg", "-v", "error", "-re", "-i", str(clip), "-c", "copy", "-f", "flv", wrong_url) as refused:
        wait_for(lambda: refused.poll() is not None, timeout_s=10, what="a wrong key was refused")
    subprocess.run(
        ["ffmpeg", "-v", "error", "-i", f"{server.rtmp}/live?key={key['key']}/x", "-f", "null", "-"],
        timeout=10,
        capture_output=True,
        check=False,
    )
    server.manage("analytics", "run", "hourly", "--json")
    parquet = list((server.folder / "lake").rglob("*.parquet"))
    assert parquet, "the lake holds what was recorded"
    for secret in (key["key"], WRONG):
        assert holders(server.folder, secret) == []
        assert secret not in server.log
        for path in ("streams", "streams/live/secret", "sessions", "attempts"):
            assert secret not in str(server.request(f"/api/v1/{path}"))


async def present(server: ServerProcess, secret: str) -> None:
    """The secret in every place where an encoder or a player may put it, rightly or by mistake; each may be refused."""
    host, _, port = server.rtmp.removeprefix("rtmp://").rpartition(":")
    for app, tc_url, name in (
        ("live", f"{server.rtmp}/live", secret),
        ("live", f"{server.rtmp}/live", f"cam?key={secret}"),
        ("live", f"{server.rtmp}/live", f"cam?token={secret}&x=1"),
        (f"live?key={secret}", f"{server.rtmp}/live?key={secret}", "cam"),
        (f"live/{secret}", f"{server.rtmp}/live/{secret}", "cam"),
        (secret, f"{server.rtmp}/{secret}", secret),
        ("live", f"rtmp://user:{secret}@{host}/live", secret),
    ):
        for action in (RtmpClient.publish, RtmpClient.play):
            client = RtmpClient(host, port=int(port))
            await client.open()
            with contextlib.suppress(Refused, ConnectionError, TimeoutError):
                await client.connect(app, tc_url=tc_url, flashVer=f"Encoder {secret}", pageUrl=f"http://x/?{secret}")
                stream_id = await action(client, name)
                await client.send_metadata(stream_id, {"title": secret, "width": 640})
                await client.send_audio(stream_id, 0, b"\xaf\x00\x12\x10")
            await client.close()


def test_no_key_is_in_the_most_talkative_log(tmp_path: Path) -> None:
    with running(tmp_path / "var", RTMPWEB_LOG_LEVEL="DEBUG", RTMPWEB_LOG_FORMAT="json") as server:
        key = server.create_key("live/cam")["key"]
        for secret in (key, WRONG):
            asyncio.run(present(server, secret))
        sessions = server.items("/api/v1/sessions")
        attempts = server.items("/api/v1/attempts")
    assert sessions
    assert attempts
    for secret in (key, WRONG):
        assert secret not in server.log
    records = [json.loads(line) for line in server.lines if line.startswith("{")]
    told = [record for record in records if record["logger"] == "ingest.consumers.journal"]
    for session in sessions:
        accepted, ended = [record for record in told if record.get("session_id") == session["id"]]
        assert accepted["message"].startswith(("Publishing live/cam from 127.0.0.1 accepted", "Playing live/cam"))
        assert ended["reason"] == session["end_reason"]
        assert accepted["connection"] == ended["connection"]
    assert {attempt["reason"] for attempt in attempts} <= {record.get("reason") for record in told}
