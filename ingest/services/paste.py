"""The exact strings that people paste into encoders and players."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from urllib.parse import quote

from django.conf import settings

from ingest.models import Stream
from ingest.validators import instance_of

PORTS = {"rtmp": 1935, "rtmps": 443}
"""What a URL means that names no port."""
WILDCARDS = {"", "0.0.0.0", "::"}  # noqa: S104 - compared with, not bound.
SAFE = "!$'()*+,;=:@~/"
"""Of a stream's name, which has a slash behind its instance."""


@dataclass(frozen=True, slots=True)
class Paste:
    """OBS has two fields, Server and Stream key; most other encoders take `publish_url` whole."""

    stream: str
    key: str = field(repr=False)
    server: str
    publish_url: str = field(repr=False)
    play_url: str
    rtmps_server: str = ""
    """Instead of `server`, for encoders that speak TLS; empty while RTMPS is off."""

    @property
    def keyed_url(self) -> str:
        """With the public name, for encoders that need one: the key is in the query."""
        return f"{self.play_url}?key={self.key}"

    @property
    def ffmpeg(self) -> str:
        """A command line that fits a file or a device."""
        coding = "-c:v libx264 -preset veryfast -b:v 2500k -maxrate 2500k -bufsize 5000k -g 60 -c:a aac -b:a 160k"
        return f"ffmpeg -re -i INPUT {coding} -f flv '{self.publish_url}'"

    def as_dict(self) -> dict[str, str]:
        """Without what is empty."""
        return {name: value for name, value in asdict(self).items() if value}


def node_url(plain: Sequence[tuple[str, int]], tls: Sequence[tuple[str, int]]) -> str:
    """By which players reach a node with these listeners: RTMPWEB_NODE_URL, else by what is known; empty: by nothing.

    A host that RTMPWEB_RTMP_HOST names may be that of several nodes: then it leads nobody to this one.
    """
    if settings.NODE_URL:
        return str(settings.NODE_URL)
    for scheme, addresses in (("rtmp", plain), ("rtmps", tls)):
        for host, port in addresses:
            if settings.RTMP_HOST or host not in WILDCARDS:
                return _base(scheme, host, port)
    return ""


def server_base() -> str:
    """rtmp://host[:port], as encoders reach it. RTMPWEB_RTMP_HOST names the host; a wildcard listener has no name."""
    return _base("rtmp", *(settings.RTMP_ADDRESS or ("", PORTS["rtmp"])))


def _base(scheme: str, host: str, port: int) -> str:
    host = url_host(settings.RTMP_HOST or host)
    return f"{scheme}://{host}" if port == PORTS[scheme] else f"{scheme}://{host}:{port}"


def url_host(host: str) -> str:
    """A host as URLs write it; a wildcard, by which nobody is reached, as this machine."""
    host = "127.0.0.1" if host in WILDCARDS else host
    return f"[{host}]" if ":" in host else host


def server(*, app: str, instance: str = "") -> str:
    return f"{server_base()}/{place(app, instance)}"


def server_of(*, stream: Stream) -> str:
    """Where its encoders connect to."""
    return server(app=stream.application.name, instance=instance_of(stream.name))


def place(app: str, instance: str) -> str:
    return f"{app}/{instance}" if instance else app


def play_url(*, stream: Stream) -> str:
    return name_url(app=stream.application.name, name=stream.name)


def name_url(*, app: str, name: str) -> str:
    return f"{server(app=app)}/{quote(name, safe=SAFE)}"


def strings(*, stream: Stream, secret: str) -> Paste:
    app, instance = stream.application.name, instance_of(stream.name)
    address = server_of(stream=stream)
    return Paste(
        stream=stream.path,
        key=secret,
        server=address,
        publish_url=f"{address}/{secret}",
        play_url=play_url(stream=stream),
        rtmps_server=(
            f"{_base('rtmps', *settings.RTMPS_ADDRESS)}/{place(app, instance)}" if settings.RTMPS_ADDRESS else ""
        ),
    )
