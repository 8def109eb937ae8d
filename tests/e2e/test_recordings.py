"""What a real encoder's stream leaves: a file that plays, whatever becomes of the server, on the operator's page and
for players. How each of those plays, seeks and resumes: `tests/ingest/test_recorded_clients.py`.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import imageio_ffmpeg
import pytest
from playwright.sync_api import Page, expect

from tests.browser import chromium, log_in, quiet
from tests.e2e.test_flv import status_of
from tests.media import Packet, assert_begins, is_run_of, of_kind, read_packets
from tests.programs import gstreamer_playing, on_air, publish_whole
from tests.rtmpweb.processes import held
from tests.server_process import ServerProcess, program, running, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One of its own, as it is killed; its application `live` records everything."""
    with running(tmp_path_factory.mktemp("recording") / "var", RTMPWEB_RECORDINGS_MIN_FREE_MIB="0") as started:
        started.manage("application", "set", "live", "--record", "all")
        yield started


def probe(path: Path, *options: str) -> dict[str, Any]:
    """What ffprobe says of a file; it has to say nothing of errors."""
    command = ["ffprobe", "-v", "error", "-of", "json", "-show_format", "-show_streams", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def file_of(server: ServerProcess, recording: int) -> Path:
    rows: list[dict[str, Any]] = server.manage_json("recording", "list")["items"]
    file: str = next(row["file"] for row in rows if row["id"] == recording)
    return server.folder / "recordings" / file


def complete(server: ServerProcess, path: str) -> dict[str, Any]:
    app, _, name = path.partition("/")
    query = f"/api/v1/recordings?app={app}&stream={name}&state=complete"
    (row,) = wait_for(lambda: server.items(query), timeout_s=20, what="the recording is closed")
    return row


def recorded(server: ServerProcess, path: str, clip: Path) -> dict[str, Any]:
    publish_whole(server, server.create_key(path), clip)
    return complete(server, path)


def test_recording_of_a_killed_server_plays_and_is_completed_at_restart(server: ServerProcess, clip: Path) -> None:
    """The file plays at once; at the next start it is closed, and its row says so."""
    require_tool("ffprobe")
    with on_air(server, server.create_key("live/killed"), clip):
        query = "/api/v1/recordings?stream=killed&state=recording"
        (row,) = wait_for(lambda: server.items(query), timeout_s=20, what="it is recorded")
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
    server.start()
    row = complete(server, "live/killed")
    assert "stopped in the middle" in row["description"]
    assert row["size_bytes"] == path.stat().st_size
    assert float(probe(path)["format"]["duration"]) == pytest.approx(row["duration_ms"] / 1000, abs=0.1)
    assert of_kind(read_packets(str(path)), "video") == video


@pytest.mark.journey
@pytest.mark.slow("an encoder publishes in real time")
@pytest.mark.browser
def test_operator_downloads_and_deletes_a_recording_in_the_browser(
    server: ServerProcess, short_clip: Path, tmp_path: Path
) -> None:
    row = recorded(server, "live/shown", short_clip)
    path = file_of(server, row["id"])
    with chromium() as browser, quiet(browser.new_context()) as page:
        log_in(page, server)
        page.get_by_role("link", name="Recordings").first.click()
        line = page.locator(f'[data-recording="{row["id"]}"]')
        expect(line).to_contain_text("live/shown-")
        expect(line).to_contain_text("0:00:03")
        with page.expect_download() as started:
            line.get_by_title("Download FLV").click()
        started.value.save_as(tmp_path / "taken.flv")
        assert started.value.suggested_filename == f"live-{row['name']}.flv"
        assert (tmp_path / "taken.flv").read_bytes() == path.read_bytes()
        line.get_by_title("Delete").click()
        expect(page.locator("#delete-what")).to_contain_text(row["name"])
        page.fill("#delete-note", "asked for by the guest")
        page.click("#delete-submit")
        expect(page.get_by_text("is deleted.")).to_be_visible()
        expect(line).to_have_count(0)
    assert not path.exists()
    taken = tmp_path / "taken.flv"
    for kind in ("video", "audio"):
        assert of_kind(read_packets(str(taken)), kind) == of_kind(read_packets(str(short_clip)), kind)
    # FFmpeg seeks by the index: the first packet behind 2 s is the keyframe there.
    found = probe(taken, "-select_streams", "v", "-show_packets", "-read_intervals", "2%+#1")["packets"][0]
    assert float(found["pts_time"]) == pytest.approx(2, abs=0.1)
    assert "K" in found["flags"]


def test_api_download_of_a_recording_works_and_resumes(server: ServerProcess, short_clip: Path, tmp_path: Path) -> None:
    """From an application that nobody may play, too; and goes on where it was broken off."""
    require_tool("curl")
    row = recorded(server, "live/fetched", short_clip)
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
        refused = subprocess.run(
            ["curl", "-sSf", row["flv_url"]], check=False, capture_output=True, text=True, timeout=60
        )
        assert "403" in refused.stderr
    finally:
        server.manage("application", "set", "live", "--play", "public")


def test_unread_download_takes_no_memory_and_is_given_up(server: ServerProcess, short_clip: Path) -> None:
    """Of a file of a GiB, until the server gives such a client up: not because its application was disabled."""
    row = recorded(server, "live/large", short_clip)
    os.truncate(file_of(server, row["id"]), 1 << 30)
    before = most = held(server.process.pid).memory_kib

    def reason() -> str | None:
        nonlocal most
        most = max(most, held(server.process.pid).memory_kib)
        sessions = server.sessions(f"live/{row['name']}", "play")
        return next((session["end_reason"] for session in sessions if session["ended_at"]), None)

    url, headers = f"{server.http}/api/v1/recordings/{row['id']}/download", {"Authorization": f"Bearer {server.token}"}
    with httpx.stream("GET", url, headers=headers, follow_redirects=True) as answer:
        assert (answer.status_code, answer.headers["Content-Length"]) == (200, str(1 << 30))
        server.manage("application", "set", "live", "--enabled", "off")
        try:
            found = wait_for(reason, timeout_s=40, what="it is given up")
        finally:
            server.manage("application", "set", "live", "--enabled", "on")
    assert found != "key_revoked"
    assert most - before < 50 * 1024


# --- For players ---


def assert_whole(received: list[Packet], sent: list[Packet]) -> None:
    """All pictures; of the sound what came before the first of them may be missing."""
    assert of_kind(received, "video") == of_kind(sent, "video")
    sound = of_kind(received, "audio")
    assert sound == of_kind(sent, "audio")[-len(sound) :]
    assert len(of_kind(sent, "audio")) - len(sound) <= 2


def test_recording_is_played_whole_by_rtmp_after_the_encoder_left(
    server: ServerProcess, short_clip: Path, tmp_path: Path
) -> None:
    require_tool("rtmpdump")
    server.manage("application", "set", "kept", "--record", "all", "--play-recordings", "as_live")
    recording = recorded(server, "kept/show", short_clip)
    url, sent = f"{server.rtmp}/kept/{recording['name']}", read_packets(str(short_clip))
    copy = (imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", url, "-c", "copy", "-f", "flv")
    for command in (copy, ("rtmpdump", "-q", "-r", url, "-o")):
        out = str(tmp_path / f"{command[-1]}.flv")
        subprocess.run([*command, out], check=True, timeout=40)
        assert_whole(read_packets(out), sent)


def test_rtmpsrc_plays_and_begins_again(server: ServerProcess, short_clip: Path, tmp_path: Path) -> None:
    """It takes the end for a connection that was lost."""
    require_tool("rtmpsrc")
    server.manage("application", "set", "films", "--play-recordings", "as_live")
    server.manage("recording", "add", "films/filmed", str(short_clip))
    out = tmp_path / "again.flv"
    with program(*gstreamer_playing(f"{server.rtmp}/films/filmed", out, "rtmpsrc location={}")):
        size = short_clip.stat().st_size
        wait_for(lambda: out.exists() and out.stat().st_size > 2 * size, timeout_s=20, what="it plays")
    once = tmp_path / "once.flv"
    once.write_bytes(out.read_bytes()[:size])
    received, sent = read_packets(str(once)), read_packets(str(short_clip))
    assert_begins(received, sent)
    for kind in ("video", "audio"):
        cut = len(of_kind(sent, kind)) - len(of_kind(received, kind))
        assert cut <= 2, "the last are cut, as its file is a little longer"


def test_play_of_a_missing_recording_is_refused_at_once(server: ServerProcess, tmp_path: Path) -> None:
    require_tool("ffmpeg")
    source = ["ffmpeg", "-v", "quiet", "-rtmp_live", "recorded", "-i", f"{server.rtmp}/live/never-filmed"]
    assert subprocess.run([*source, "-c", "copy", str(tmp_path / "none.flv")], timeout=10).returncode != 0


def test_recording_is_played_by_http_from_its_start_and_from_a_time(server: ServerProcess, short_clip: Path) -> None:
    server.manage("application", "set", "shelf", "--record", "all")
    recording = recorded(server, "shelf/show", short_clip)
    assert status_of(recording["flv_url"]) == 403, "its name could be guessed"
    status, made = server.request(f"/api/v1/recordings/{recording['id']}/token", method="POST")
    assert (status, made["flv_url"].partition("?")[0]) == (201, recording["flv_url"])
    url, sent = made["flv_url"], read_packets(str(short_clip))
    for kind in ("video", "audio"):
        assert of_kind(read_packets(url), kind) == of_kind(sent, kind)
    late = of_kind(read_packets(f"{url}&start=1.5"), "video")
    assert late == of_kind(sent, "video")[-len(late) :]
    assert next(packet for packet in sent if packet.data == late[0]).is_keyframe
    assert len(of_kind(sent, "video")) / 3 < len(late) < len(of_kind(sent, "video"))


# --- For browsers ---


def video(page: Page, expression: str) -> Any:
    """Of the page's video, as `v`."""
    return page.evaluate(f"(v => {expression})(document.querySelector('video'))")


def plays_and_seeks(page: Page, at_s: float) -> None:
    wait_for(lambda: video(page, "v.readyState >= 2"), timeout_s=20, what="its first picture is there")
    assert video(page, "v.duration") == pytest.approx(3, abs=0.2)
    page.evaluate("document.querySelector('video').muted = true; document.querySelector('video').play()")
    wait_for(lambda: video(page, "v.currentTime > 0.3"), timeout_s=10, what="it plays")
    page.evaluate(f"document.querySelector('video').currentTime = {at_s}")
    wait_for(lambda: video(page, f"!v.seeking && v.currentTime >= {at_s}"), timeout_s=10, what="it plays from there")
    assert video(page, "v.error") is None


@pytest.mark.browser
def test_browser_plays_a_recording_and_its_shared_link_without_login(
    server: ServerProcess, short_clip: Path, tmp_path: Path
) -> None:
    row = recorded(server, "live/watched", short_clip)
    sent = read_packets(str(short_clip))
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        with quiet(context) as page:
            log_in(page, server)
            page.goto(f"{server.http}/recordings/")
            page.locator(f'[data-recording="{row["id"]}"]').get_by_title("Watch").click()
            plays_and_seeks(page, 2)
            page.keyboard.press("p")
            assert video(page, "v.paused")
            page.keyboard.press("ArrowLeft")
            assert video(page, "v.currentTime") < 1
            with page.expect_download() as started:
                page.locator("#download-mp4").click()
            started.value.save_as(tmp_path / "taken.mp4")
            assert started.value.suggested_filename == f"live-{row['name']}.mp4"
            for kind in ("video", "audio"):
                assert of_kind(read_packets(str(tmp_path / "taken.mp4")), kind) == of_kind(sent, kind)
            page.get_by_role("button", name="Share").click()
            page.select_option("#share-hours", "24")
            page.click("#share button[type=submit]")
            expect(page.locator("#made")).to_contain_text("Copy the link now.")
            link = (page.locator("#made-link").text_content() or "").strip()
            page.click("#made .dlg-foot [data-do=close]")
            expect(page.locator("#made")).to_contain_text("Nothing was copied.")
            page.click("[data-made=leave]")
            expect(page.locator("#made")).to_be_hidden()
        phone = browser.new_context(viewport={"width": 320, "height": 640}, color_scheme="dark")
        with quiet(phone) as page:
            page.goto(link)
            expect(page.get_by_role("heading", level=1)).to_have_text(row["name"])
            plays_and_seeks(page, 1.5)
            assert page.evaluate("document.documentElement.scrollWidth") == 320
            assert phone.cookies() == []
    assert link.partition("token=")[2] not in server.log


@pytest.mark.browser
def test_recording_page_says_why_the_browser_can_not_play_the_codec(server: ServerProcess, tmp_path: Path) -> None:
    require_tool("ffmpeg")
    clip = tmp_path / "old.flv"
    pattern = ("-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25:duration=1")
    subprocess.run(["ffmpeg", "-v", "error", *pattern, "-c:v", "flv", str(clip)], check=True, timeout=30)
    server.manage("recording", "add", "live/old", str(clip))
    (row,) = server.items("/api/v1/recordings?name=old")
    with chromium() as browser, quiet(browser.new_context(), but="415") as page:
        log_in(page, server)
        page.goto(f"{server.http}/recordings/{row['id']}/")
        expect(page.locator("#player-say")).to_contain_text("Its picture is H.263")
        expect(page.locator("video")).to_be_hidden()
