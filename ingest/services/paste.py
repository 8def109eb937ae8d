"""The exact strings that people paste into encoders and players."""

from dataclasses import asdict, dataclass, field
from urllib.parse import quote

from django.conf import settings

from ingest.models import Stream

RTMP_PORT = 1935
WILDCARDS = {"", "0.0.0.0", "::"}  # noqa: S104 - compared with, not bound.
SAFE = "!$'()*+,;=:@~"


@dataclass(frozen=True, slots=True)
class Paste:
    """OBS has two fields, Server and Stream key; most other encoders take `publish_url` whole."""

    stream: str
    key: str = field(repr=False)
    server: str
    publish_url: str = field(repr=False)
    play_url: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def server_base() -> str:
    """rtmp://host[:port], as encoders reach it. RTMPWEB_RTMP_HOST names the host; a wildcard listener has no name."""
    host, port = settings.RTMP_ADDRESS or ("", RTMP_PORT)
    host = settings.RTMP_HOST or ("127.0.0.1" if host in WILDCARDS else host)
    host = f"[{host}]" if ":" in host else host
    return f"rtmp://{host}" if port == RTMP_PORT else f"rtmp://{host}:{port}"


def server(*, app: str) -> str:
    return f"{server_base()}/{app}"


def play_url(*, stream: Stream) -> str:
    return f"{server(app=stream.application.name)}/{quote(stream.name, safe=SAFE)}"


def strings(*, stream: Stream, secret: str) -> Paste:
    address = server(app=stream.application.name)
    return Paste(
        stream=stream.path,
        key=secret,
        server=address,
        publish_url=f"{address}/{secret}",
        play_url=play_url(stream=stream),
    )
