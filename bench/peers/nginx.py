"""nginx with libnginx-mod-rtmp, both of Debian: nothing logged; of several workers each pushes its streams to the
others."""

import contextlib
import grp
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.peers import Server
from tests.background import Background, accepts, free_port
from tests.rtmpweb.processes import children

NAME = "nginx-rtmp"
APP = "bench"
PACKAGES = "nginx libnginx-mod-rtmp"
MODULE = Path("/usr/lib/nginx/modules/ngx_rtmp_module.so")
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
"""Debian's nginx is not on everybody's PATH."""

CONFIGURATION = """
load_module {module};
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
worker_processes {workers};
rtmp_auto_push {push};
rtmp_socket_dir {folder};
events {{ use epoll; multi_accept on; worker_connections 4096; }}
rtmp {{
    access_log off;
    server {{
        listen 127.0.0.1:{port};
        chunk_size 4096;
        application {app} {{ live on; {record} }}
    }}
}}
"""


FILES = """
user {user} {group};
daemon off;
pid {work}/nginx.pid;
error_log stderr;
worker_processes 1;
worker_rlimit_nofile 65536;
events {{ use epoll; multi_accept on; worker_connections 16384; }}
http {{
    access_log off;
    client_body_temp_path {work};
    proxy_temp_path {work};
    fastcgi_temp_path {work};
    uwsgi_temp_path {work};
    scgi_temp_path {work};
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    open_file_cache max=1000;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {folder};
        location / {{ types {{ application/vnd.apple.mpegurl m3u8; video/mp4 m4s mp4; }} }}
    }}
}}
"""
"""nginx serves a folder."""


def missing_files() -> str | None:
    """The same for `serving`."""
    return None if shutil.which("nginx", path=PLACES) else "nginx is not there: apt-get install nginx"


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """The folder's files over HTTP; its `url` is that of `index.json` there."""
    program = shutil.which("nginx", path=PLACES)
    assert program is not None, missing_files()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="rtmpweb-bench-") as name:
        work = Path(name)
        file = work / "nginx.conf"
        who = {"user": pwd.getpwuid(os.getuid()).pw_name, "group": grp.getgrgid(os.getgid()).gr_name}
        file.write_text(FILES.format(work=work, port=port, folder=folder, **who))
        command = [program, "-p", name, "-c", str(file), "-e", "stderr"]
        process = Background("nginx", command, folder=work, ready=lambda: accepts(port))
        try:
            process.start()
            yield Server(process.pid, f"http://127.0.0.1:{port}/index.json", "", lambda: process.log)
        finally:
            process.stop()


def missing() -> str | None:
    """What to install, or None."""
    if shutil.which("nginx", path=PLACES) and MODULE.exists():
        return None
    return f"{NAME} is not there: apt-get install {PACKAGES}"


@contextlib.contextmanager
def running(*, record: bool = False, workers: int = 1) -> Iterator[Server]:
    """`record`: everything is recorded."""
    program = shutil.which("nginx", path=PLACES)
    assert program is not None, missing()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="rtmpweb-bench-") as name:
        folder = Path(name)
        file = folder / "nginx.conf"
        recording = f"record all; record_path {name};" if record else ""
        several = {"workers": workers, "push": "on" if workers > 1 else "off"}
        own = {"module": MODULE, "folder": folder, "port": port, "app": APP, "record": recording}
        file.write_text(CONFIGURATION.format(**own, **several))
        if record or workers > 1:
            folder.chmod(0o777)  # Its workers are another user.
        command = [program, "-p", name, "-c", str(file), "-e", "stderr"]
        process = Background("nginx", command, folder=folder, ready=lambda: accepts(port))
        try:
            process.start()
            serving = tuple(sorted(children(process.pid))) if workers > 1 else ()
            yield Server(process.pid, f"rtmp://127.0.0.1:{port}", APP, lambda: process.log, workers=serving)
        finally:
            process.stop()
