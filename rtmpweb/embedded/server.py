"""The embedded server's life: take the data folder, listen, prepare (the first start makes more), run, stop in
order."""

import asyncio
import fcntl
import logging
import os
import secrets
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import transaction

from analytics.java import JavaMissing, find_java
from ingest import command_line
from ingest.models import Application, Stream
from ingest.services import data_folder, keys, media_urls
from ingest.services.installation import StartError

from rtmpweb.embedded.reactor import loop, reactor  # isort: skip - before Daphne, which would install another.
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from twisted.internet.defer import Deferred

from ingest.consumers import decisions, startup
from ingest.consumers.startup import SETTINGS, server_config
from ingest.management.base import StopSignals
from ingest.management.children import Child
from ingest.management.workers import Workers, address_text
from ingest.server import CertificateError, RtmpServer, ServerConfig, tune_for_event_loop
from ingest.server import ListenError as RtmpListenError
from ingest.server.tls import load
from ingest.services import installation
from rtmpweb.embedded import own_redis
from rtmpweb.embedded.celery_workers import celery_workers
from rtmpweb.embedded.http import HttpServer, ListenError, explain_listen_error, listen, url_host
from rtmpweb.embedded.packager import listen_beside, packager
from rtmpweb.heartbeats import idle_worker_heartbeat

LOCK_FILE = "serve.lock"
LONGEST_HOLDER = 200
"""Characters of the holder's name that are read."""


def lock_data_folder(folder: Path) -> TextIO:
    """The lock, for as long as it stays open; who has it is written in it. Raises StartError."""
    try:
        lock = os.fdopen(os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, data_folder.FILE), "r+")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with lock:
            holder = lock.read(LONGEST_HOLDER).strip()
        raise StartError(
            f"Another `serve` runs in the data folder {folder}{f': {holder}' if holder else ''}. Stop it first, "
            "or give this one a folder and ports of its own (RTMPWEB_DATA_DIR, RTMPWEB_HTTP and so on)."
        ) from None
    except OSError as error:
        raise StartError(
            f"The data folder {folder} can't be used: {LOCK_FILE}: {error.strerror}. Let this user write there, or set "
            "RTMPWEB_DATA_DIR to another folder."
        ) from None
    with suppress(OSError):  # On a full disk it is held all the same.
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        lock.flush()
    return lock


ADMIN = "admin"
APPLICATION = "live"
STREAM = "demo"
FIRST_PATH = f"{APPLICATION}/{STREAM}"

FIRST_START = "first-start.txt"
"""In the data folder: what a first start would have shown, had there been a terminal."""


@dataclass(frozen=True, slots=True)
class FirstStart:
    """What this start made; the secrets in it can't be found out later."""

    password: str | None = None
    key: media_urls.ConnectionStrings | None = None


def migrate() -> None:
    call_command("migrate", interactive=False, verbosity=0)


def create_missing() -> FirstStart:
    """An administrator if there is none; the application, stream and key to begin with if there is no application."""
    users = get_user_model()
    with transaction.atomic():
        password = None
        if not users.objects.filter(is_superuser=True).exists():
            password = secrets.token_urlsafe(12)
            users.objects.create_superuser(ADMIN, "", password)
        key = None
        if not Application.objects.exists():
            application = Application.objects.create(name=APPLICATION)
            stream = Stream.objects.create(application=application, name=STREAM)
            key = media_urls.strings(stream=stream, secret=keys.create(stream=stream, label="first start").secret)
    return FirstStart(password, key)


def greeting(first: FirstStart, dashboard_url: str, *, to_terminal: bool) -> list[str]:
    """The lines that an operator reads at start. Only a first start's contain secrets: they are shown once.

    Where nobody reads them as they come they would stay: in a journal, or a container's log. There they go to a file.
    """
    manage = command_line.here
    lines = [f"Data: {settings.DATA_DIR}", f"Dashboard: {dashboard_url}"]
    if first.password:
        lines.append(f"  User: {ADMIN}")
        lines.append(f"  Password: {first.password}   (shown once; change it: {manage('changepassword', ADMIN)})")
    else:
        lines.append(f"  Lost the password? {manage('changepassword USER')}")
    if first.key:
        lines.append("OBS: Settings, Stream, Service: Custom...")
        lines.append(f"  Server: {first.key.server}")
        lines.append(f"  Stream Key: {first.key.key}   (shown once)")
        lines.append(f"Play: {first.key.play_url}")
    else:
        lines.append(f"OBS server: {media_urls.server(app=APPLICATION)}")
        lines.append(f"  Lost a stream key? {manage('streamkey rotate', FIRST_PATH)}")
    if first != FirstStart() and not to_terminal:
        lines = [*lines[:2], _put_aside(first, lines)]
    try:
        find_java()
    except JavaMissing as missing:
        lines += [f"All but analytics works. {missing}"]
    return lines


def _put_aside(first: FirstStart, lines: list[str]) -> str:
    """Writes the lines to a file of this user alone; says which, or how to come by other secrets."""
    file = settings.DATA_DIR / FIRST_START
    names = " and ".join(name for name, secret in (("password", first.password), ("stream key", first.key)) if secret)
    try:
        descriptor = os.open(
            file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, data_folder.FILE
        )
        data_folder.close(file)
        with os.fdopen(descriptor, "w") as out:
            out.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        new = f"{command_line.here('changepassword', ADMIN)}, {command_line.here('streamkey rotate', FIRST_PATH)}"
        return f"The {names} could not be written to {file}: {error.strerror}. Make new ones: {new}"
    return f"The {names} to begin with: in {file}, which this user alone can read. Delete it when you have read it."


log = logging.getLogger(__name__)

RTMP_GRACE_S = 5.0
"""For sessions to end and be recorded, and telemetry to be flushed."""
CHILD_GRACE_S = 10.0
"""For a worker to finish the task that it runs; an idle one takes 3 to 6 s to end."""


class Embedded:
    """Listens in `start`, runs until a signal, and leaves nothing running."""

    def __init__(self, application: Any, write: Callable[[str], None], *, to_terminal: bool, workers: int = 1) -> None:
        """`write` takes each line for the operator, who sees them at once and alone where it is `to_terminal`. With
        several `workers`, RTMP is theirs.
        """
        self._application = application
        self._write = write
        self._to_terminal = to_terminal
        self._children: list[Child] = []
        self._redis: Child | None = None
        self._rtmp: RtmpServer | None = None
        self._hls: socket.socket | None = None
        self._workers = Workers(workers, write, grace_s=RTMP_GRACE_S) if workers > 1 else None

    def run(self) -> None:
        """Raises ListenError and StartError before anything was made or started."""
        asyncio.set_event_loop(loop)
        self._lock = lock_data_folder(settings.DATA_DIR)
        if settings.HTTP_ADDRESS is None:
            raise ListenError(
                "RTMPWEB_HTTP is off: the embedded server needs it. "
                f"Run `{command_line.here('runrtmp')}` for RTMP alone."
            )
        http = self._listen(settings.HTTP_ADDRESS)
        settings.HTTP_ADDRESS = (settings.HTTP_ADDRESS[0], http.getsockname()[1])
        try:
            config = self._configure()
            if own_redis.is_named():
                loop.run_until_complete(self._start_redis())
            migrate()
            installation.check()
            self._start_rtmp(config)
            self._listen_for_viewers()
        except BaseException:
            http.close()
            self._kill_children()
            raise
        self._greet(http)
        connections.close_all()
        loop.run_until_complete(self._start_children())
        reactor.addSystemEventTrigger(
            "before", "shutdown", lambda: Deferred.fromFuture(asyncio.ensure_future(self._stop()))
        )
        server = HttpServer(self._application, http, beside=settings.MAX_CONNECTIONS if self._rtmp else 0)
        loop.call_soon(self._on_running)
        tune_for_event_loop()
        server.run()

    # --- Start ---

    @staticmethod
    def _configure() -> ServerConfig:
        """What pages may play from here is told by the port of HTTP, which must be known."""
        try:
            config = server_config(settings.RTMP_ADDRESS, settings.RTMPS_ADDRESS, settings.MEDIA_ADDRESS)
            if config.rtmps and config.certificate and config.certificate_key:
                load(config.certificate, config.certificate_key)
        except (CertificateError, ImproperlyConfigured) as error:
            raise ListenError(str(error)) from error
        return config

    @staticmethod
    def _listen(http: tuple[str, int]) -> socket.socket:
        """Where HTTP is listened for. What stops the other listeners is found, too, before the first start makes, and
        shows once, what it makes.
        """
        media = {"rtmp": settings.RTMP_ADDRESS, "rtmps": settings.RTMPS_ADDRESS, "http": settings.MEDIA_ADDRESS}
        others = {SETTINGS[scheme]: address for scheme, address in media.items() if address is not None}
        bound = listen({"RTMPWEB_HTTP": http, **others})
        for setting in others:
            bound[setting].close()
        return bound["RTMPWEB_HTTP"]

    def _start_rtmp(self, config: ServerConfig) -> None:
        if config.rtmp is None and config.rtmps is None:
            return
        if self._workers:
            self._start_workers(self._workers, config)
            return
        with suppress(decisions.TooSlow):  # Then the node takes it once it can.
            loop.run_until_complete(startup.take_name(config.node, self._write))
        self._rtmp = RtmpServer(self._application, config)
        try:
            loop.run_until_complete(self._rtmp.start())
        except RtmpListenError as error:
            raise explain_listen_error(error, error.address, SETTINGS[error.scheme]) from error
        self._show_ports(config, {scheme: bound[0] for scheme, bound in self._rtmp.bound.items() if bound})

    def _start_workers(self, workers: Workers, config: ServerConfig) -> None:
        try:
            bound = workers.bind({"rtmp": config.rtmp, "rtmps": config.rtmps, "http": config.media})
        except RtmpListenError as error:
            raise explain_listen_error(error, error.address, SETTINGS[error.scheme]) from error
        self._show_ports(config, bound)
        connections.close_all()
        http = {"RTMPWEB_HTTP": address_text(settings.HTTP_ADDRESS)}  # Whose pages may play from there.
        loop.run_until_complete(workers.start(**http))

    @staticmethod
    def _show_ports(config: ServerConfig, bound: Mapping[str, tuple[str, int]]) -> None:
        """Port 0 took a free one: this process's pages and texts show the one it is."""
        if config.rtmp is not None:
            settings.RTMP_ADDRESS = (config.rtmp[0], bound["rtmp"][1])
        if config.rtmps is not None:
            settings.RTMPS_ADDRESS = (config.rtmps[0], bound["rtmps"][1])
        if config.media is not None:
            settings.MEDIA_ADDRESS = (config.media[0], bound["http"][1])

    def _listen_for_viewers(self) -> None:
        """Last, as it makes way for all others."""
        if settings.HLS_ADDRESS is None:
            return
        self._hls = listen_beside(settings.HLS_ADDRESS, self._write)
        host = settings.HLS_ADDRESS[0]
        settings.HLS_ADDRESS = (host, self._hls.getsockname()[1]) if self._hls is not None else None

    def _greet(self, http: socket.socket) -> None:
        host, port = http.getsockname()[:2]
        self._url = f"http://{url_host(host)}:{port}/"
        first = create_missing()
        for line in greeting(first, self._url, to_terminal=self._to_terminal):
            self._write(line)

    async def _start_redis(self) -> None:
        self._redis = Child(own_redis.program(), self._write)
        self._redis.start()
        await own_redis.wait_until_it_answers()

    async def _start_children(self) -> None:
        queue = None if settings.BROKER_URL else settings.BROKER_DIR / "queue"
        programs = celery_workers(settings.BASE_DIR, settings.DATA_DIR, queue)
        if self._hls is not None and settings.HLS_ADDRESS is not None:
            programs.append(packager(settings.BASE_DIR, settings.HLS_ADDRESS, self._hls))
        for program in programs:
            child = Child(program, self._write)
            child.start()
            self._children.append(child)
            if program.wanted is not None:  # While it rests nobody else says that it will be there.
                idle_worker_heartbeat(child.is_well).start()

    def _on_running(self) -> None:
        self._signals = StopSignals(self._write, self._on_stop, self._kill_children)
        serving = self._workers or self._rtmp
        if serving is not None and settings.RTMPS_ADDRESS is not None:
            loop.add_signal_handler(signal.SIGHUP, serving.reload_certificate)
        self._announce_ready()

    def _announce_ready(self) -> None:
        urls = [
            f"{scheme}://{url_host(address[0])}:{address[1]}/"
            for scheme, address in (("rtmp", settings.RTMP_ADDRESS), ("rtmps", settings.RTMPS_ADDRESS))
            if address is not None
        ]
        self._write(f"Ready: dashboard {self._url}, {', '.join(urls) or 'no RTMP (RTMPWEB_RTMP is off)'}")
        if base := media_urls.media_base():
            self._write(f"FLV by HTTP and WebSocket: {base}/live/APPLICATION/STREAM.flv")
        if base := media_urls.hls_base():
            self._write(f"HLS: {base}/hls/APPLICATION/STREAM/index.m3u8; to watch: {self._url}watch/APPLICATION/STREAM")

    # --- Stop ---

    def _on_stop(self) -> None:
        self._ending = loop.create_task(self._drain_and_stop())

    def _kill_children(self) -> None:
        if self._workers:
            self._workers.kill()
        for child in (*self._children, *filter(None, [self._redis])):
            child.kill()

    async def _drain_and_stop(self) -> None:
        if self._rtmp is not None:
            await self._signals.drain(self._rtmp)
        elif self._workers:
            await self._workers.drain(self._signals)
        self._write("Stopping; once more to stop at once.")
        reactor.stop()

    async def _stop(self) -> None:
        if self._hls is not None:
            self._hls.close()
        steps = [child.stop(CHILD_GRACE_S) for child in self._children]
        if self._rtmp is not None:
            steps.append(self._rtmp.stop(RTMP_GRACE_S))
        if self._workers:
            steps.append(self._workers.stop())
        for result in await asyncio.gather(*steps, return_exceptions=True):
            if isinstance(result, BaseException):
                log.error("While stopping: %r", result)
        if self._redis:  # Last, as the others use it.
            await self._redis.stop(CHILD_GRACE_S)
            own_redis.forget()
        data_folder.leave_socket_folder(settings.DATA_DIR)
        self._write("Stopped.")
