"""Viewers by HTTP and by WebSocket: the programs and browsers that people have, with tokens, from the real server."""

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import chromium
from tests.e2e import accepted
from tests.e2e.programs import PLAYERS, PUBLISHERS, Keys, key_url, playing, publishing
from tests.media import is_run_of, of_kind, read_packets
from tests.server_process import ROOT, ServerProcess, wait_for
from tests.tools import find_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(180)]

VIEWERS = ("ffmpeg", "ffmpeg-imageio", "vlc", "souphttpsrc")

MPEGTS = ROOT / "dashboard" / "static" / "vendor" / "mpegts.js"

PLAY = """url => {
  window.faults = [];
  const player = mpegts.createPlayer({type: "flv", isLive: true, url}, {enableWorker: false});
  player.on(mpegts.Events.ERROR, (kind, detail, info) => window.faults.push(`${kind}: ${detail}: ${info && info.msg}`));
  player.attachMediaElement(document.querySelector("video"));
  player.load();
  player.play();
}"""


OPEN_SOCKET = """url => new Promise(done => {
  const socket = new WebSocket(url);
  socket.onopen = () => done("played");
  socket.onerror = () => done("refused");
})"""


def links(server: ServerProcess, path: str) -> dict[str, str]:
    status, made = server.request(f"/api/v1/streams/{path}/token", method="POST")
    assert status == 201, made
    found: dict[str, str] = made
    return found


def test_players_get_by_http_what_players_get_by_rtmp(
    server: ServerProcess, keys: Keys, clip: Path, tmp_path: Path
) -> None:
    url = links(server, "live/flv")["flv_url"]
    viewers = [name for name in VIEWERS if all(find_tool(tool) for tool in PLAYERS[name].tools)]
    got = {name: tmp_path / f"{name}.flv" for name in (*viewers, "rtmpdump")}
    with ExitStack() as stack:
        ends = [stack.enter_context(playing(name, url, got[name])) for name in viewers]
        ends += [stack.enter_context(playing("rtmpdump", f"{server.rtmp}/live/flv", got["rtmpdump"]))]
        wait_for(lambda: server.stream("live/flv")["players"] == len(got), timeout_s=30, what="all players are there")
        publish = partial(PUBLISHERS["ffmpeg-imageio"].publish, clip, key_url(keys["flv"], server.rtmp, "name"))
        accepted.whole(server, publish)
        for end in ends:
            end()
    sent = read_packets(str(clip))
    for name, file in got.items():
        received = read_packets(str(file))
        for kind in ("video", "audio"):
            packets = of_kind(received, kind)
            assert len(packets) > 60, (name, kind)
            assert is_run_of(packets, of_kind(sent, kind)) == 0, (name, kind)

    def ended() -> list[dict[str, Any]] | None:
        found = server.items("/api/v1/sessions?app=live&name=flv&kind=play")
        return found if len(found) >= len(got) and all(session["ended_at"] for session in found) else None

    sessions = wait_for(ended, timeout_s=20, what="all viewers' sessions have ended")
    assert {session["end_reason"] for session in sessions} <= {"tcp_reset", "client_unpublish"}
    assert any(session["encoder"].startswith("Lavf") for session in sessions)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser, server: ServerProcess) -> Iterator[Page]:
    """A page of the dashboard's origin that has mpegts.js and nothing else."""
    context = browser.new_context(bypass_csp=True)
    opened = context.new_page()
    opened.goto(f"{server.http}/healthz")
    opened.evaluate("document.body.innerHTML = '<video muted playsinline></video>'")
    opened.add_script_tag(path=MPEGTS)
    yield opened
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["flv_url", "ws_url"])
def test_a_browser_plays(server: ServerProcess, keys: Keys, clip: Path, page: Page, kind: str) -> None:
    url = links(server, "live/watched")[kind]
    sending = publishing(clip, key_url(keys["watched"], server.rtmp, "name"), "-stream_loop", "-1")
    with accepted.on_air(server, "live/watched", sending):
        page.evaluate(PLAY, url)
        page.wait_for_function("document.querySelector('video').currentTime > 2", timeout=20_000)
        assert page.evaluate("window.faults") == []
        assert page.evaluate("document.querySelector('video').videoWidth") == 640


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A page of another origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}/"
        site.shutdown()


@pytest.mark.browser
def test_a_page_of_another_origin_plays_nothing(
    server: ServerProcess, browser: Browser, keys: Keys, elsewhere: str
) -> None:
    made = links(server, "live/watched")
    context = browser.new_context()
    opened = context.new_page()
    opened.goto(elsewhere)
    fetched = opened.evaluate("url => fetch(url).then(() => 'played', () => 'refused')", made["flv_url"])
    assert (fetched, opened.evaluate(OPEN_SOCKET, made["ws_url"])) == ("refused", "refused")
    context.close()
    attempts = wait_for(lambda: server.items("/api/v1/attempts?reason=rejected"), timeout_s=5, what="the attempts")
    assert any("RTMPWEB_MEDIA_ORIGINS" in attempt["description"] for attempt in attempts)


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - always this installation's own address
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_token_lets_its_bearer_play_its_stream_for_its_time(server: ServerProcess) -> None:
    server.manage("application", "set", "gated", "--play", "token")
    server.create_keys(["gated/one", "gated/two"])
    made = server.manage_json("playtoken", "gated/one")
    url, base = links(server, "gated/one")["flv_url"], links(server, "gated/one")["flv_url"].partition("?")[0]
    short = server.manage_json("playtoken", "gated/one", "--hours", "0.0006")["token"]
    assert status_of(url) == 200
    assert status_of(f"{base}?token={made['token']}") == 200
    assert status_of(base) == 403
    assert status_of(f"{base}?token=guessed") == 403
    assert status_of(base.replace("/one.flv", f"/two.flv?token={made['token']}")) == 403
    assert status_of(base.replace("/gated/", "/nowhere/")) == 404
    assert status_of(base.replace("/one.flv", "/none.flv")) == 404
    wait_for(lambda: status_of(f"{base}?token={short}") == 403, timeout_s=10, what="the token has expired")
    expected = {"token_missing", "token_invalid", "token_expired", "stream_unknown"}
    wait_for(
        lambda: expected <= {attempt["reason"] for attempt in server.items("/api/v1/attempts?app=gated")},
        timeout_s=10,
        what="all refusals are written",
    )
    assert made["token"] not in server.log


def test_a_recording_is_played_from_its_start_and_from_a_time_on(server: ServerProcess, short_clip: Path) -> None:
    server.manage("application", "set", "shelf", "--record", "all")
    url = key_url(server.create_key("shelf/show"), server.rtmp, "name")
    accepted.whole(server, partial(PUBLISHERS["ffmpeg-imageio"].publish, short_clip, url))

    def complete() -> dict[str, Any] | None:
        found = server.items("/api/v1/recordings?app=shelf")
        return found[0] if found and found[0]["state"] == "complete" else None

    recording = wait_for(complete, timeout_s=15, what="the recording is complete")
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
