"""A server that runs already, of whatever make: rtmp://HOST:PORT/APP, where anybody may publish and play, or the URL of
a stream by HLS."""

import contextlib
import os
from collections.abc import Iterator
from urllib.parse import urlsplit

from bench.peers import Server
from bench.process import pin_to


@contextlib.contextmanager
def running(url: str, pid: int) -> Iterator[Server]:
    """`pid`: of the process whose CPU time counts, with its descendants. They are moved to the server's core while
    it is measured."""
    parts = urlsplit(url)
    before = os.sched_getaffinity(pid)
    server, app = (url, "") if parts.scheme == "http" else (f"rtmp://{parts.netloc}", parts.path.strip("/"))
    try:
        yield Server(pid, server, app, lambda: f"See what process {pid} logs.")
    finally:
        pin_to(pid, before)
