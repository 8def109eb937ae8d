"""This project, in the forms that its users run, each started as the tests start it."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import SkipTest

import httpx
import imageio_ffmpeg

from bench.load.clip import clip_file
from bench.peers import Server
from tests.background import Background
from tests.production.parts import MediaNode, Packager, RedisServer
from tests.rtmpweb.processes import children, command
from tests.server_process import Installation, ServerProcess, wait_for

NAME = "rtmpweb"
APP = "bench"
KEYED = "keyed"
"""An application whose publishers need a key."""
MAKE_KEYS = """
from ingest.models import Application, Stream
from ingest.services import keys
application = Application.objects.create(name="{app}")
for number in range({count}):
    print("KEY", keys.create(stream=Stream.objects.create(application=application, name=f"keyed{{number}}")).secret)
"""
OPEN = ("application", "set", APP, "--publish", "open", "--play", "public")
NODE = "node-a"


class Template:
    """A data folder with its database and the application `bench`, made once; servers get copies of it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rtmpweb-bench-"))
        installation = Installation(self._folder)
        try:
            installation.manage("migrate", "--verbosity", "0")
            installation.manage(*OPEN)
        except BaseException:
            self.close()
            raise

    def copy(self, to: Path) -> None:
        shutil.copytree(self._folder, to)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.contextmanager
def _node(template: Template, folder: Path, settings: dict[str, str]) -> Iterator[Server]:
    data = folder / "data"
    template.copy(data)
    installation = Installation(data, **settings)
    node = MediaNode(NODE, folder, installation.environment)
    try:
        node.start()
        yield Server(node.pid, node.url, APP, lambda: node.log, installation, alone=True)
    finally:
        node.stop()


def repeated(mbps: float, url: str) -> list[str]:
    """FFmpeg publishes the clip there, again and again."""
    file = clip_file(mbps)
    if file is None:
        raise SystemExit("There is no FFmpeg to publish by.")
    once = ("-nostdin", "-v", "error", "-re", "-stream_loop", "-1", "-i", str(file))
    return [imageio_ffmpeg.get_ffmpeg_exe(), *once, "-c", "copy", "-f", "flv", url]


def is_live(url: str) -> bool:
    """Whether the packager has something to watch there."""
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@contextlib.contextmanager
def packaged(template: Template, mbps: float) -> Iterator[Server]:
    """A packager beside a media node, to which FFmpeg publishes the clip: `url` is the multivariant playlist's."""
    with tempfile.TemporaryDirectory(prefix="rtmpweb-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with _node(template, folder, {}) as node:
            assert node.installation is not None
            packager = Packager(folder, {**node.installation.environment, "RTMPWEB_NODE": NODE})
            publisher = Background(
                "ffmpeg", repeated(mbps, f"{node.url}/{APP}/load0"), folder=folder, ready=lambda: True
            )
            try:
                packager.start()
                publisher.start()
                url = f"{packager.url}/hls/{APP}/load0/index.m3u8"
                wait_for(lambda: is_live(url), timeout_s=20, what=url)
                yield Server(packager.pid, url, APP, lambda: f"{packager.log}\n{publisher.log}", alone=True)
            finally:
                publisher.stop()
                packager.stop()


@contextlib.contextmanager
def _workers(template: Template, folder: Path, settings: dict[str, str], count: int) -> Iterator[Server]:
    data = folder / "data"
    template.copy(data)
    try:
        redis = RedisServer(folder)
    except SkipTest as lacking:
        raise SystemExit(f"Several workers: {lacking}.") from None
    with redis:
        installation = Installation(data, REDIS_URL=redis.url, **settings)
        node = MediaNode(NODE, folder, installation.environment, workers=count)
        try:
            node.start()
            serving = tuple(sorted(pid for pid in children(node.pid) if "--worker" in command(pid)))
            yield Server(node.pid, node.url, APP, lambda: node.log, installation, workers=serving)
        finally:
            node.stop()


@contextlib.contextmanager
def _embedded(template: Template, folder: Path, settings: dict[str, str]) -> Iterator[Server]:
    data = folder / "data"
    template.copy(data)
    server = ServerProcess(data, RTMPWEB_HLS="127.0.0.1:0", **settings)
    try:
        server.start()
        yield Server(server.process.pid, server.rtmp, APP, lambda: server.log, server)
    finally:
        server.stop()


@contextlib.contextmanager
def _production(template: Template, folder: Path, settings: dict[str, str]) -> Iterator[Server]:
    try:
        from tests.production.installation import (
            Production,  # It reads the settings: bench.analytics has others.
        )

        whole = Production(folder, nodes=(NODE,), **settings)
    except SkipTest as lacking:
        raise SystemExit(f"The production form {lacking}.") from None
    try:
        whole.start()
        whole.manage(*OPEN)
        pids = [part.pid for part in whole.processes]
        yield Server(
            whole.nodes[NODE].pid, whole.rtmp, APP, lambda: whole.log, whole, alone=True, all_pids=lambda: pids
        )
    finally:
        whole.stop()


Form = Callable[[Template, Path, dict[str, str]], contextlib.AbstractContextManager[Server]]

FORMS: dict[str, Form] = {"node": _node, "embedded": _embedded, "production": _production}
"""`node`: a media node with SQLite and the rest in memory; `embedded`: the whole server, with dashboard and workers;
`production`: a media node with PostgreSQL, Redis, web process and workers beside it, which are not counted."""


@contextlib.contextmanager
def running(
    form: str, template: Template, flush_ms: int = 0, *, record: bool = False, keys: int = 0, workers: int = 1
) -> Iterator[Server]:
    """With the settings that users get, but for the flush, and for how many walls one session may have. `record`:
    everything is recorded. `keys`: so many streams have one, in an application that asks for them. Several `workers`:
    a node's, whatever the form."""
    settings = {"RTMPWEB_FLUSH_MS": str(flush_ms), "RTMPWEB_HTTP_SOCKETS": "1000"}
    start = partial(_workers, count=workers) if workers > 1 else FORMS[form]
    with (
        tempfile.TemporaryDirectory(prefix="rtmpweb-bench-", ignore_cleanup_errors=True) as name,
        start(template, Path(name), settings) as server,
    ):
        if record and server.installation is not None:
            server.installation.manage("application", "set", APP, "--record", "all")
        yield _keyed(server, keys) if keys else server


def _keyed(server: Server, count: int) -> Server:
    assert server.installation is not None
    make = MAKE_KEYS.format(app=KEYED, count=count)
    said = server.installation.manage("shell", "--no-imports", "-c", make).splitlines()
    found = tuple(line.removeprefix("KEY ") for line in said if line.startswith("KEY "))
    return replace(server, app=KEYED, keys=found)
