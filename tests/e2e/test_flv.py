"""Viewers by HTTP and by WebSocket: the programs and browsers that people have, with tokens, from the real server."""

from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.media import assert_begins, read_packets
from tests.programs import PLAYERS, Keys, on_air, playing, publish_whole
from tests.receivers import serving
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
        publish_whole(server, keys["flv"], clip, "ffmpeg-imageio")
        for end in ends:
            end()
    sent = read_packets(str(clip))
    for name, file in got.items():
        assert_begins(read_packets(str(file)), sent, who=name)

    def ended() -> list[dict[str, Any]] | None:
        found = server.sessions("live/flv", "play")
        return found if len(found) >= len(got) and all(session["ended_at"] for session in found) else None

    sessions = wait_for(ended, timeout_s=20, what="all viewers' sessions have ended")
    assert {session["end_reason"] for session in sessions} <= {"tcp_reset", "client_unpublish"}
    assert any(session["encoder"].startswith("Lavf") for session in sessions)


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


@pytest.mark.journey
@pytest.mark.browser
@pytest.mark.parametrize("kind", ["flv_url", "ws_url"])
def test_browser_plays_flv_by_http_and_websocket(
    server: ServerProcess, keys: Keys, clip: Path, page: Page, kind: str
) -> None:
    url = links(server, "live/watched")[kind]
    with on_air(server, keys["watched"], clip):
        page.evaluate(PLAY, url)
        page.wait_for_function("document.querySelector('video').currentTime > 2", timeout=20_000)
        assert page.evaluate("window.faults") == []
        assert page.evaluate("document.querySelector('video').videoWidth") == 640


@pytest.fixture
def elsewhere() -> Iterator[str]:
    site = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    with serving(site):
        yield f"http://127.0.0.1:{site.server_port}/"


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
    with httpx.stream("GET", url, timeout=20) as answer:
        return answer.status_code


def test_a_token_lets_its_bearer_play_its_stream_for_its_time(server: ServerProcess) -> None:
    server.manage("application", "set", "gated", "--play", "token")
    server.create_keys(["gated/one", "gated/two"])
    made = server.manage_json("playtoken", "gated/one")
    url = links(server, "gated/one")["flv_url"]
    base = url.partition("?")[0]
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

    def all_written() -> bool:
        return expected <= {attempt["reason"] for attempt in server.items("/api/v1/attempts?app=gated")}

    wait_for(all_written, timeout_s=10, what="all refusals are written")
    assert made["token"] not in server.log
