"""The Redis that `serve --workers` runs for its processes: a Unix socket in a folder of its data folder's user.

Whether that is what REDIS_URL names is all that others need to know: it keeps nothing, and is on this machine alone."""

from pathlib import Path
from urllib.parse import quote

from django.conf import settings

from ingest.services import data_folder

SOCKET = "redis.sock"


def socket_of(folder: Path) -> Path:
    """Of the installation with this data folder."""
    return data_folder.socket_folder(folder) / SOCKET


def url_of(folder: Path) -> str:
    """As REDIS_URL."""
    return f"unix://{quote(str(socket_of(folder)))}"


def is_apart() -> bool:
    """Whether there is a Redis that is an operator's: parts of the installation may be on other machines."""
    return bool(settings.REDIS_URL) and url_of(settings.DATA_DIR) != settings.REDIS_URL
