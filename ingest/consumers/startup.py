"""What a media node needs before it listens: the RTMP server's configuration from the project's settings, and its name
in the database. The same for `runrtmp` and the embedded server."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from ingest.consumers import decisions
from ingest.live import LiveSettings, QueueLimits
from ingest.rtmp.limits import KIB, MIB, limits_for
from ingest.server import Deadlines, ServerConfig
from ingest.server.config import (
    QUEUE,
    Mp4Settings,
    PullSettings,
    PushSettings,
    RecordingSettings,
    RelaySettings,
    ThumbnailSettings,
)
from ingest.services import data_folder, media_urls, nodes

logger = logging.getLogger(__name__)

SETTINGS = {"rtmp": "RTMPWEB_RTMP", "rtmps": "RTMPWEB_RTMPS", "http": "RTMPWEB_MEDIA"}
"""The setting of each listener's address."""

ROOM_BESIDE = 1 * MIB
"""In a player's queue beside the longest message, which no player would be sent otherwise."""


def server_config(
    rtmp: tuple[str, int] | None, rtmps: tuple[str, int] | None = None, media: tuple[str, int] | None = None
) -> ServerConfig:
    """Listeners on `rtmp`, with TLS on `rtmps`, and for FLV by HTTP on `media` (host, port), as RTMPWEB_* say. Raises
    ImproperlyConfigured.
    """
    if rtmps and not (settings.TLS_CERT and settings.TLS_KEY):
        raise ImproperlyConfigured(
            "RTMPWEB_RTMPS needs a certificate: name its PEM files in RTMPWEB_TLS_CERT and RTMPWEB_TLS_KEY."
        )
    longest = settings.MAX_MESSAGE_MIB * MIB
    limits = limits_for(longest)
    node = nodes.own_name()
    return ServerConfig(
        node=node,
        rtmp=rtmp,
        rtmps=rtmps,
        media=media,
        media_origins=media_urls.origins(),
        trusted_proxies=settings.TRUSTED_PROXIES,
        local=_local_socket(node),
        certificate=settings.TLS_CERT,
        certificate_key=settings.TLS_KEY,
        reconnect_url=settings.RECONNECT_URL,
        flush_ms=settings.FLUSH_MS,
        read_ms=settings.READ_MS,
        unsent_bytes=settings.UNSENT_KIB * KIB,
        limits=limits,
        queue=QueueLimits(size_bytes=max(QueueLimits().size_bytes, longest + ROOM_BESIDE)),
        live=LiveSettings(caches_bytes=settings.CACHE_MIB * MIB),
        disk=settings.DATA_DIR,
        recording=RecordingSettings(
            folder=settings.RECORDINGS_DIR,
            rotate_s=settings.RECORD_ROTATE_S,
            rotate_bytes=settings.RECORD_ROTATE_MIB * MIB,
            min_free_bytes=settings.RECORDINGS_MIN_FREE_MIB * MIB,
            queue=replace(QUEUE, size_bytes=max(QUEUE.size_bytes, longest + ROOM_BESIDE)),
            limits=limits,
        ),
        mp4=Mp4Settings(folder=settings.RECORDINGS_DIR),
        thumbnails=_thumbnails(settings.THUMBNAILS_S),
        relay=RelaySettings(most=settings.MAX_RELAYS, ca=settings.RELAY_CA),
        push=PushSettings(most=settings.MAX_PUSHES),
        pull=PullSettings(most=settings.MAX_PULLS),
        deadlines=Deadlines(waiting_s=settings.WAITING_S, end_players_s=settings.END_PLAYERS_S),
        max_connections=settings.MAX_CONNECTIONS,
        max_connections_per_address=settings.MAX_CONNECTIONS_PER_ADDRESS,
    )


def _local_socket(node: str) -> Path | None:
    try:
        data_folder.make_socket_folder(settings.DATA_DIR)
    except OSError as error:
        logger.warning(
            "%s: %s. Other nodes of this machine reach this one by its address.",
            data_folder.socket_folder(settings.DATA_DIR),
            error.strerror,
        )
        return None
    return data_folder.node_socket(settings.DATA_DIR, node, "rtmp")


def _thumbnails(watched_s: int) -> ThumbnailSettings | None:
    if not watched_s:
        return None
    return ThumbnailSettings(watched_s=watched_s, unwatched_s=max(watched_s, ThumbnailSettings().unwatched_s))


T = TypeVar("T")

ASK_S = 15.0
"""For an answer: a database that hangs gives up sooner by itself, so that only a busy machine takes so long."""


async def ask_before_start(work: Callable[[], T]) -> T:
    """Raises TooSlow, and what `work` does."""
    deadline = asyncio.get_running_loop().time() + ASK_S
    return await decisions.decide(work, executor=decisions.WRITE, deadline=deadline)


async def take_name(node: str, write_line: Callable[[str], None]) -> None:
    """Returns once the name is this process's. Raises NameTaken, TooSlow and DatabaseError.

    `write_line` is given a line if that takes a while.
    """
    claim = nodes.Claim(node)
    if await ask_before_start(claim.take):
        return
    write_line(str(claim))
    while not await ask_before_start(claim.take):  # noqa: ASYNC110 - another process may write.
        await asyncio.sleep(nodes.POLL_S)
