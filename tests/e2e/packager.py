"""A packager for the watch page: what FFmpeg's own muxer makes of a clip, at the URLs of ours, by a server that can be
told to be away, to have another state, and to end."""

import json
import re
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.tools import require_tool

KINDS = {".m3u8": "application/vnd.apple.mpegurl", ".m4s": "video/mp4", ".mp4": "video/mp4", ".html": "text/html"}

VARIANT = (
    '#EXT-X-STREAM-INF:BANDWIDTH={bandwidth},CODECS="{codecs}",RESOLUTION={size}{audio}\nv0.m3u8?viewer={viewer}\n'
)
TRACKS = """#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="English",DEFAULT=YES,AUTOSELECT=YES
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="Deutsch",DEFAULT=NO,URI="a1.m3u8?viewer={viewer}"
"""


class Packager:
    """Of one stream, `app/name`. `asked`: the times that each file's name was asked for."""

    def __init__(self, folder: Path, clip: Path) -> None:
        self._folder, self._clip = folder, clip
        self.state: dict[str, str] = {"state": "waiting", "words": "", "title": ""}
        self.is_away = False
        self.codecs = "avc1.42c01e,mp4a.40.2"
        self.has_choices = False
        self.beacons: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self._encoder: subprocess.Popen[bytes] | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def forget(self) -> None:
        """Back to how it began."""
        self.state.update(state="waiting", words="", title="")
        self.codecs, self.has_choices, self.is_away = "avc1.42c01e,mp4a.40.2", False, False
        for record in (self.beacons, self.asked):
            record.clear()
        for file in self._folder.iterdir():
            file.unlink()

    def put(self, name: str, text: str) -> None:
        """Another page of this server."""
        (self._folder / name).write_text(text)

    def go_live(self) -> None:
        """A publisher begins; again, it goes on over a discontinuity."""
        hls = ["-f", "hls", "-hls_time", "1", "-hls_list_size", "8", "-hls_segment_type", "fmp4"]
        flags = "append_list+discont_start+program_date_time+independent_segments"
        outputs = []
        for name, maps in (("v0", ["0:v", "0:a"]), ("a1", ["0:a"])):
            chosen = [word for each in maps for word in ("-map", each)]
            files = ["-hls_fmp4_init_filename", f"{name}-{uuid.uuid4().hex[:6]}.mp4"]
            files += ["-hls_segment_filename", str(self._folder / f"{name}-%d.m4s")]
            outputs += [*chosen, "-c", "copy", *hls, "-hls_flags", flags, *files, str(self._folder / f"{name}.m3u8")]
        read = ["-v", "error", "-re", "-stream_loop", "-1", "-i", str(self._clip)]
        self._encoder = subprocess.Popen([require_tool("ffmpeg"), *read, *outputs], stdin=subprocess.DEVNULL)
        self.state["state"] = "live"

    def stop(self, state: str) -> None:
        """The publisher leaves; where the state is `ended`, for good."""
        if self._encoder is not None:
            # Not SIGINT: a shell may have the tests ignore it, and with them FFmpeg in its first moments.
            self._encoder.terminate()
            self._encoder.wait(10)
            self._encoder = None
        if state != "ended":
            for playlist in self._folder.glob("*.m3u8"):
                playlist.write_text(playlist.read_text().replace("#EXT-X-ENDLIST\n", ""))
        self.state["state"] = state

    def close(self) -> None:
        if self._encoder is not None:
            self._encoder.kill()
            self._encoder.wait(10)
        self._server.shutdown()
        self._server.server_close()

    def _index(self) -> str:
        viewer = uuid.uuid4().hex
        given = {"codecs": self.codecs, "viewer": viewer, "audio": ',AUDIO="a"' if self.has_choices else ""}
        text = "#EXTM3U\n#EXT-X-VERSION:7\n" + (TRACKS.format(**given) if self.has_choices else "")
        sizes = {"640x360": 900_000, "320x180": 400_000} if self.has_choices else {"320x180": 400_000}
        return text + "".join(VARIANT.format(bandwidth=rate, size=size, **given) for size, rate in sizes.items())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        packager = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                name = self.path.partition("?")[0].rpartition("/")[2]
                packager.asked.append(self.path)
                if packager.is_away:
                    self.close_connection = True
                    return
                file = packager._folder / re.sub(r"[^\w.-]", "", name)
                if name == "state.json":
                    self._answer(200, json.dumps(packager.state).encode(), "application/json")
                elif name == "index.m3u8" and packager.state["state"] != "closed":
                    self._answer(200, packager._index().encode(), KINDS[".m3u8"])
                elif file.is_file():
                    self._answer(200, file.read_bytes(), KINDS.get(file.suffix, "text/plain"))
                else:
                    self._answer(404, b"", "text/plain")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                packager.beacons.append({"path": self.path, **json.loads(body)})
                self._answer(204, b"", self.headers["Content-Type"])

            def _answer(self, status: int, body: bytes, kind: str) -> None:
                with suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(body)))
                    self.send_header("Access-Control-Allow-Origin", "*")
                    self.send_header("Cache-Control", "no-store")
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@contextmanager
def packaging(folder: Path, clip: Path) -> Iterator[Packager]:
    folder.mkdir()
    made = Packager(folder, clip)
    try:
        yield made
    finally:
        made.close()
