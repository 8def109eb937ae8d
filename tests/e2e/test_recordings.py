"""What a real encoder's stream leaves: a file that plays, whatever becomes of the server, on the operator's page."""

import contextlib
import http.client
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser import chromium, log_in
from tests.e2e.programs import key_url
from tests.media import is_run_of, of_kind, read_packets
from tests.server_process import ServerProcess, program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def recording_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One of its own, as it is killed; its application `live` records everything."""
    folder = tmp_path_factory.mktemp("recording") / "var"
    server = ServerProcess(folder, RTMPWEB_RECORDINGS_MIN_FREE_MIB="0")
    server.put_tables()
    server.start()
    try:
        server.manage("application", "set", "live", "--record", "all")
        yield server
    finally:
        server.stop()


def probe(path: Path, *options: str) -> dict[str, Any]:
    """What ffprobe says of a file; it has to say nothing of errors."""
    done = subprocess.run(
        ["ffprobe", "-v", "error", "-of", "json", "-show_format", "-show_streams", *options, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def recordings(server: ServerProcess, **wanted: str) -> list[dict[str, Any]]:
    query = "&".join(f"{name}={value}" for name, value in wanted.items())
    return server.items(f"/api/v1/recordings?{query}")


def file_of(server: ServerProcess, recording: int) -> Path:
    rows: list[dict[str, Any]] = server.manage_json("recording", "list")["items"]
    file: str = next(row["file"] for row in rows if row["id"] == recording)
    return server.folder / "recordings" / file


def recorded(server: ServerProcess, name: str, clip: Path) -> dict[str, Any]:
    """The complete recording of a stream of `live`."""
    publish = ["ffmpeg", "-v", "error", "-re", "-i", str(clip), "-c", "copy", "-f", "flv"]
    subprocess.run([*publish, key_url(server.create_key(f"live/{name}"), server.rtmp, "name")], check=True, timeout=60)
    (row,) = wait_for(lambda: recordings(server, stream=name, state="complete"), timeout_s=20, what="it is closed")
    return row


def resident_mib(server: ServerProcess) -> float:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines())
    return int(lines["VmRSS"].split()[0]) / 1024


@pytest.mark.slow("real programs publish and play, in real time")
def test_killed_in_the_middle(recording_server: ServerProcess, clip: Path) -> None:
    """The file plays at once; at the next start it is closed, and its row says so."""
    require_tool("ffprobe")
    server = recording_server
    key = server.create_key("live/killed")
    publish = ["ffmpeg", "-v", "error", "-re", "-stream_loop", "-1", "-i", str(clip), "-c", "copy", "-f", "flv"]
    with program(*publish, key_url(key, server.rtmp, "name")):
        (row,) = wait_for(
            lambda: recordings(server, stream="killed", state="recording"), timeout_s=20, what="it is recorded"
        )
        path = file_of(server, row["id"])
        wait_for(lambda: path.stat().st_size > 400_000, timeout_s=20, what="some seconds are on the disk")
        server.process.kill()
        server.process.wait(10)
    packets = read_packets(str(path))
    whole = of_kind(read_packets(str(clip)), "video")
    video = of_kind(packets, "video")
    assert len(video) > 30
    assert is_run_of(video[: len(whole)], whole) == 0
    assert {stream["codec_name"] for stream in probe(path)["streams"]} == {"h264", "aac"}
    said = server.lines.copy()
    server.lines.clear()
    server.start()
    server.lines[:0] = said  # Of the first start, with the password.
    (row,) = wait_for(lambda: recordings(server, stream="killed", state="complete"), timeout_s=20, what="it is closed")
    assert "stopped in the middle" in row["description"]
    assert row["size_bytes"] == path.stat().st_size
    assert float(probe(path)["format"]["duration"]) == pytest.approx(row["duration_ms"] / 1000, abs=0.1)
    assert of_kind(read_packets(str(path)), "video") == video


@pytest.mark.slow("real programs publish and play, in real time")
@pytest.mark.browser
def test_an_operator_takes_it_from_the_page(recording_server: ServerProcess, short_clip: Path, tmp_path: Path) -> None:
    server = recording_server
    row = recorded(server, "shown", short_clip)
    path = file_of(server, row["id"])
    with chromium() as browser:
        page = browser.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        log_in(page, server)
        page.get_by_role("link", name="Recordings").first.click()
        line = page.locator(f'[data-recording="{row["id"]}"]')
        expect(line).to_contain_text("live/shown-")
        expect(line).to_contain_text("0:00:03")
        with page.expect_download() as started:
            line.get_by_title("Download").click()
        started.value.save_as(tmp_path / "taken.flv")
        assert started.value.suggested_filename == f"live-{row['name']}.flv"
        assert (tmp_path / "taken.flv").read_bytes() == path.read_bytes()
        line.get_by_title("Delete").click()
        expect(page.locator("#delete-what")).to_contain_text(row["name"])
        page.fill("#delete-note", "asked for by the guest")
        page.click("#delete-submit")
        expect(page.get_by_text("is deleted.")).to_be_visible()
        expect(line).to_have_count(0)
        assert faults == []
    assert not path.exists()
    taken = tmp_path / "taken.flv"
    for kind in ("video", "audio"):
        assert of_kind(read_packets(str(taken)), kind) == of_kind(read_packets(str(short_clip)), kind)
    # FFmpeg seeks by the index: the first packet behind 2 s is the keyframe there.
    found = probe(taken, "-select_streams", "v", "-show_packets", "-read_intervals", "2%+#1")["packets"][0]
    assert float(found["pts_time"]) == pytest.approx(2, abs=0.1)
    assert "K" in found["flags"]


def test_a_script_takes_it_by_the_api(recording_server: ServerProcess, short_clip: Path, tmp_path: Path) -> None:
    """From an application that nobody may play, too; and goes on where it was broken off."""
    require_tool("curl")
    server = recording_server
    row = recorded(server, "fetched", short_clip)
    path = file_of(server, row["id"])
    server.manage("application", "set", "live", "--play", "none")
    try:
        url = f"{server.http}/api/v1/recordings/{row['id']}/download"
        command = ["curl", "-sSfLOJ", "-H", f"Authorization: Bearer {server.token}", url]
        subprocess.run(command, check=True, timeout=60, cwd=tmp_path)
        taken = tmp_path / f"live-{row['name']}.flv"
        assert taken.read_bytes() == path.read_bytes()
        os.truncate(taken, 1000)
        command[1:2] = ["-sSfL", "-C", "-", "-o", taken.name]
        subprocess.run(command, check=True, timeout=60, cwd=tmp_path)
        assert taken.read_bytes() == path.read_bytes()
        plain = next(item for item in recordings(server, stream="fetched"))["flv_url"]
        refused = subprocess.run(["curl", "-sSf", plain], check=False, capture_output=True, text=True, timeout=60)
        assert "403" in refused.stderr
    finally:
        server.manage("application", "set", "live", "--play", "public")


@contextlib.contextmanager
def asked_for(server: ServerProcess, url: str) -> Iterator[http.client.HTTPResponse]:
    """The response's head, wherever it leads; of its body nothing is read."""
    found = urlsplit(url)
    connection = http.client.HTTPConnection(found.hostname or "", found.port, timeout=20)
    try:
        connection.request("GET", f"{found.path}?{found.query}", headers={"Authorization": f"Bearer {server.token}"})
        answer = connection.getresponse()
        if answer.status == 302:
            with asked_for(server, answer.headers["Location"]) as final:
                yield final
        else:
            yield answer
    finally:
        connection.close()


@pytest.mark.slow("real programs publish and play, in real time")
def test_a_download_that_nobody_reads_takes_no_memory(recording_server: ServerProcess, short_clip: Path) -> None:
    """Of a file of a GiB, until the server gives such a client up: not because its application was disabled."""
    server = recording_server
    row = recorded(server, "large", short_clip)
    os.truncate(file_of(server, row["id"]), 1 << 30)
    before = resident_mib(server)
    most = before

    def reason() -> str | None:
        nonlocal most
        most = max(most, resident_mib(server))
        sessions = server.items(f"/api/v1/sessions?app=live&name={row['name']}&kind=play")
        return next((session["end_reason"] for session in sessions if session["ended_at"]), None)

    with asked_for(server, f"{server.http}/api/v1/recordings/{row['id']}/download") as answer:
        assert (answer.status, answer.headers["Content-Length"]) == (200, str(1 << 30))
        server.manage("application", "set", "live", "--enabled", "off")
        try:
            found = wait_for(reason, timeout_s=40, what="it is given up")
        finally:
            server.manage("application", "set", "live", "--enabled", "on")
    assert found != "key_revoked"
    assert most - before < 50, "MiB"
