"""The load of viewers by HLS, against an origin that comes part by part: what it measures is what there was."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import quantiles

import httpx
import pytest
import pytest_asyncio

from bench import hls as contest
from bench.load import hls
from bench.load.hls import Load, Place, Watched, edge, unchunked
from bench.peers import nginx
from tests.hls.clip import PART_S, PARTS, Origin, clip
from tests.receivers import serving

VIEWERS = 10


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come at once, and the window opens."""
    for name in ("JOIN_S", "SETTLE_S", "DRAIN_S"):
        monkeypatch.setattr(hls, name, 0.2)


@pytest_asyncio.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin(clip()) as found:
        yield found


async def watched(url: str, seconds: float = 2.0, save: Path | None = None, viewers: int = VIEWERS) -> Watched:
    began: list[bool] = []
    found = await Load(url, viewers, save).run(seconds, lambda: began.append(True))
    assert began == [True]
    return found


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("count", [0, 3, 5, 42, 60, 79])
def test_edge_gives_the_next_part_to_request_from_a_playlist(count: int, delta: bool) -> None:
    assert edge(clip().playlist(count, delta=delta).encode()) == divmod(count, PARTS)


def test_unchunked_joins_the_chunks_of_an_answer() -> None:
    assert unchunked(b"0\r\n\r\n") == b""
    assert unchunked(b"3\r\nabc\r\na;x=y\r\n0123456789\r\n0\r\n\r\n") == b"abc0123456789"


async def test_each_viewer_gets_each_part(origin: Origin) -> None:
    found = await watched(origin.url)
    wanted = VIEWERS * found.seconds / PART_S
    assert found.errors == []
    assert found.reloads == pytest.approx(wanted, abs=2 * VIEWERS)
    assert found.parts == pytest.approx(wanted, abs=2 * VIEWERS)
    body = sum(map(len, clip().parts)) / len(clip().parts)
    assert found.bytes_in > 0.8 * wanted * body
    assert found.late_ms == sorted(found.late_ms)
    assert 0 <= found.late_ms[0] <= found.late_ms[-1] < 1000


async def test_late_answers_are_measured_separately_from_punctual_ones(
    origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each second answer to the same request waits: a busy machine delays both halves, and keeps them apart."""
    until, asked = Origin._until, [0]

    async def late(self: Origin, count: int) -> None:
        await until(self, count)
        asked[0] += 1
        await asyncio.sleep(0.1 * (asked[0] % 2))

    monkeypatch.setattr(Origin, "_until", late)
    found = await watched(origin.url)
    assert found.errors == []
    assert len(found.late_ms) > 80
    punctual_ms, _, late_ms = quantiles(found.late_ms, n=4)
    assert late_ms - punctual_ms >= 80


def test_part_lateness_counts_from_the_first_report_of_it_or_a_later_one() -> None:
    load = Load("http://127.0.0.1/x.m3u8", 1)
    asked: list[tuple[Place, Place, float, float]] = [
        ((1, 0), (1, 1), 1.0, 5.0),
        ((1, 0), (1, 2), 1.0, 4.0),
        ((1, 1), (1, 2), 4.5, 6.0),
        ((1, 4), (2, 0), 1.0, 7.0),
    ]
    load._is_measuring = True
    for one in asked:
        load.reloaded(*one)
    assert load._judged().late_ms == [0.0, 0.0, 1000.0, 1500.0]


async def test_errors_are_counted(origin: Origin) -> None:
    found = await watched(origin.url.replace("index", "other"), 0.2)
    assert found.errors.count("the server answered 404") == VIEWERS
    ended = await watched_at_the_end()
    assert set(ended.errors) == {"the stream has ended"}


async def watched_at_the_end() -> Watched:
    async with Origin(clip(), ahead_s=60) as origin:
        return await watched(origin.url, 0.2)


async def test_unreachable_server_ends_the_load_with_no_connection() -> None:
    with pytest.raises(SystemExit, match="No connection"):
        await watched("http://127.0.0.1:1/index.m3u8", 0.1)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[str]:
    class Handler(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path)))
    server.daemon_threads = True
    with serving(server):
        yield f"http://127.0.0.1:{server.server_address[1]}/index.json"


async def test_the_same_requests_go_to_files(origin: Origin, files: str, tmp_path: Path) -> None:
    seconds = 1.2
    await watched(origin.url, seconds, save=tmp_path)
    steps = json.loads((tmp_path / "index.json").read_text())
    names = {part for step in steps for part in step["parts"]}
    assert {(tmp_path / name).read_bytes() for name in names} <= set(clip().parts)
    assert len(names) >= seconds / PART_S
    found = await watched(files, seconds, viewers=3)
    assert found.errors == []
    assert found.reloads == pytest.approx(3 * found.seconds / PART_S, abs=6)
    assert found.parts == pytest.approx(found.reloads, abs=6)


@pytest.mark.skipif(nginx.missing_files() is not None, reason="needs nginx (Debian package nginx)")
def test_nginx_serves_the_saved_files(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text("[]")
    with nginx.serving(tmp_path) as server:
        assert httpx.get(server.url, trust_env=False).json() == []


def test_nginx_takes_part_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nginx, "missing_files", lambda: None)
    found = contest.contest(5, tmp_path, "ours", lambda: None, "nginx")  # type: ignore[arg-type,return-value]
    assert (list(found.servers), found.peer) == (["ours", contest.FILES], contest.FILES)
    monkeypatch.setattr(nginx, "missing_files", lambda: "nginx is not there")
    found = contest.contest(5, tmp_path, "ours", lambda: None, "nginx")  # type: ignore[arg-type,return-value]
    assert (list(found.servers), found.peer) == (["ours"], "")
