"""The packager of the embedded server, as a program that is its child, and where it listens."""

import errno
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from ingest.management.children import Program
from ingest.management.workers import LISTENING, address_text
from rtmpweb.embedded.http import Address, open_listener

MOST_BESIDE = 20
"""Ports that are tried."""


def listen_beside(wanted: Address, write: Callable[[str], None]) -> socket.socket | None:
    """On the address, or at a port beside it that is free, as is said then: streams are published and played by RTMP
    whatever else listens there. None: there is none, as is said too.

    It stays open here: what viewers ask for while the packager is started again waits, and nobody else takes the port.
    """
    host, port = wanted
    for beside in range(MOST_BESIDE if port else 1):
        try:
            found = open_listener((host, port + beside))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
            write(f"RTMPWEB_HLS: {host}:{port} can't be listened on: {error.strerror}. There is no HLS.")
            return None
        if beside:
            write(f"RTMPWEB_HLS: port {port} is in use by another program; HLS is at port {port + beside} instead.")
        return found
    write(f"RTMPWEB_HLS: port {port} and those beside it are in use. There is no HLS: set it to another address.")
    return None


def packager(project: Path, address: Address, listener: socket.socket) -> Program:
    return Program(
        "hls",
        (sys.executable, str(project / "manage.py"), "runhls", "--descriptor", str(listener.fileno())),
        environment={
            "RTMPWEB_DATA_DIR": str(settings.DATA_DIR),
            "RTMPWEB_HLS": address_text(address),
        },
        ready=LISTENING,
        descriptors=(listener.fileno(),),
    )
