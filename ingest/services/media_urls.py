"""The exact strings that people paste into encoders and players, and the URLs by which streams and recordings are had
from the media listener, and from which pages they may be; where our own pages are, for messages."""

import shlex
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from ingest.models import Recording, Stream
from ingest.models.names import instance_of
from ingest.services import play_tokens

PORTS = {"rtmp": 1935, "rtmps": 443}
"""What a URL means that names no port."""
WILDCARDS = {"", "0.0.0.0", "::"}  # noqa: S104 - compared with, not bound.
SAFE = "!$'()*+,;=:@~/"
"""Of a stream's name, which has a slash behind its instance."""


@dataclass(frozen=True, slots=True)
class ConnectionStrings:
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
    """By which other nodes reach one with these listeners: RTMPWEB_NODE_URL, else by the listener's address; of one on
    all addresses by that which leads to what all nodes share. Empty: by nothing. It may ask the name service.

    RTMPWEB_RTMP_HOST, which encoders and players use, may be the name of several nodes.
    """
    if settings.NODE_URL:
        return str(settings.NODE_URL)
    for scheme, addresses in (("rtmp", plain), ("rtmps", tls)):
        for host, port in addresses:
            reached = shared_address() if host in WILDCARDS else host
            return f"{scheme}://{url_host(reached)}" + ("" if port == PORTS[scheme] else f":{port}")
    return ""


def shared_address() -> str:
    """This machine's address in the network of the database, or of Redis: what all nodes reach. Without either all of
    them are here."""
    database, redis = settings.DATABASES["default"], urlsplit(settings.REDIS_URL)
    hosts = ((database.get("HOST") or "", database.get("PORT") or 5432), (redis.hostname or "", redis.port or 6379))
    for host, port in hosts:
        if host and not host.startswith("/"):
            with suppress(OSError, ValueError):
                family, kind, _, _, there = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)[0]
                with socket.socket(family, kind) as probe:
                    probe.connect(there)  # Of datagrams it only chooses a way, and sends nothing.
                    return str(probe.getsockname()[0])
    return "127.0.0.1"


def page_host(request: HttpRequest) -> str:
    """The host by which the browser reaches the dashboard, without a port."""
    return urlsplit(f"//{request.get_host()}").hostname or url_host("")


def server_base(page: str = "") -> str:
    """rtmp://host[:port], as encoders reach it. RTMPWEB_RTMP_HOST names the host; a listener on all addresses has no
    name, but is behind `page` too: the host by which the dashboard was reached."""
    return _base("rtmp", *(settings.RTMP_ADDRESS or ("", PORTS["rtmp"])), page)


def _base(scheme: str, host: str, port: int, page: str = "") -> str:
    host = url_host(settings.RTMP_HOST or (page if page and host in WILDCARDS else host))
    return f"{scheme}://{host}" if port == PORTS[scheme] else f"{scheme}://{host}:{port}"


def url_host(host: str) -> str:
    """A host as URLs write it; a wildcard, by which nobody is reached, as this machine."""
    host = "127.0.0.1" if host in WILDCARDS else host
    return f"[{host}]" if ":" in host else host


def server(*, app: str, page: str = "") -> str:
    return f"{server_base(page)}/{app}"


def server_of(*, stream: Stream, page: str = "") -> str:
    return server(app=_instance_path(stream), page=page)


def rtmps_server_of(*, stream: Stream, page: str = "") -> str:
    """ "": RTMPS is off."""
    base = _base("rtmps", *settings.RTMPS_ADDRESS, page) if settings.RTMPS_ADDRESS else ""
    return base and f"{base}/{_instance_path(stream)}"


def _instance_path(stream: Stream) -> str:
    app, instance = stream.application.name, instance_of(stream.name)
    return f"{app}/{instance}" if instance else app


def play_url(*, stream: Stream, page: str = "") -> str:
    return name_url(app=stream.application.name, name=stream.name, page=page)


def name_url(*, app: str, name: str, page: str = "") -> str:
    return f"{server(app=app, page=page)}/{quote(name, safe=SAFE)}"


def strings(*, stream: Stream, secret: str, page: str = "") -> ConnectionStrings:
    address = server_of(stream=stream, page=page)
    return ConnectionStrings(
        stream=stream.path,
        key=secret,
        server=address,
        publish_url=f"{address}/{secret}",
        play_url=play_url(stream=stream, page=page),
        rtmps_server=rtmps_server_of(stream=stream, page=page),
    )


Form = Literal["flv", "mp4"]

MOST_HOURS: Final = 31 * 24
"""For which scripts may have a token be valid."""

LASTING: Final = timedelta(days=3650)
"""Of a link that works until its stream's links are replaced."""

USUAL_HOURS: Final = play_tokens.PLAY.lifetime / timedelta(hours=1)

DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class PlayLink:
    """Whoever has one of the URLs can play until the token expires."""

    token: str = field(repr=False)
    expires_at: datetime
    play_url: str = field(repr=False)
    """RTMP."""
    flv_url: str = field(repr=False)
    """FLV over HTTP; empty where the media listener is off."""
    ws_url: str = field(repr=False)
    """FLV over WebSocket, likewise."""
    hls_url: str = field(default="", repr=False)
    """Of a stream; empty where HLS is off."""
    watch_url: str = field(default="", repr=False)
    """The page for browsers, likewise."""


@dataclass(frozen=True, slots=True)
class RecordingLink(PlayLink):
    """`watch_url`: a page of ours, which needs no log-in."""

    mp4_url: str = field(default="", repr=False)
    """By HTTP; empty where the media listener is off."""


def make_play_link(
    stream: Stream, lifetime: timedelta = play_tokens.PLAY.lifetime, *, page: str = "", site: str = ""
) -> PlayLink:
    """Of a stream and its recordings. `site`: as of `watch_url`."""
    link = _link(stream, play_tokens.PLAY, lifetime, page, generation=stream.link_generation)
    return replace(
        link,
        hls_url=hls_url(stream=stream, token=link.token, page=page),
        watch_url=watch_url(stream=stream, token=link.token, site=site),
    )


def make_recording_link(
    recording: Recording, lifetime: timedelta = play_tokens.RECORDING.lifetime, *, page: str = "", site: str = ""
) -> RecordingLink:
    """Of this recording and no other of its name. `site`: scheme and host by which who asks reaches the dashboard, for
    where the settings don't say."""
    link = _link(recording, play_tokens.RECORDING, lifetime, page)
    path = f"/recordings/{recording.pk}/watch?token={link.token}"
    mp4_url = recording_url(recording, "mp4", page=page)
    return RecordingLink(
        **asdict(link)
        | {
            "watch_url": absolute_url(path, site),
            "mp4_url": mp4_url and f"{mp4_url}?token={link.token}",
        }
    )


@dataclass(frozen=True, slots=True)
class WatchUrl:
    """One way to watch a live stream, as it is printed."""

    id: str
    label: str
    url: str = field(repr=False)
    """May bear a token."""

    @property
    def commands(self) -> list[dict[str, str]]:
        """By player, as shells take them."""
        return [{"player": name, "line": shlex.join([name.lower(), self.url])} for name in PLAYERS]


PLAYERS: Final = ("FFplay", "VLC", "mpv")


def watch_urls(*, stream: Stream, page: str = "", token: str = "") -> list[WatchUrl]:
    """`token`: where playing takes one."""
    query = f"?token={token}" if token else ""
    plain, name = play_url(stream=stream, page=page), quote(stream.name, safe=SAFE)
    found = [WatchUrl("rtmp", "RTMP", f"{plain}{query}")]
    if settings.RTMPS_ADDRESS:
        base = _base("rtmps", *settings.RTMPS_ADDRESS, page)
        found.append(WatchUrl("rtmps", "RTMP with TLS", f"{base}/{stream.application.name}/{name}{query}"))
    if flv := live_url(stream=stream, page=page):
        found.append(WatchUrl("flv", "FLV over HTTP", f"{flv}{query}"))
    if hls := hls_url(stream=stream, token=token, page=page):
        found.append(WatchUrl("hls", "HLS", hls))
    return found


def live_url(*, stream: Stream, page: str = "") -> str:
    """FLV over HTTP, of what is live; empty where the media listener is off."""
    base = media_base(page)
    return base and f"{base}{_file(stream)}"


def hls_url(*, stream: Stream, token: str = "", page: str = "") -> str:
    """The multivariant playlist; empty where HLS is off. `token`: where playing takes one, which is in the path: so it
    is in all that the playlists lead to."""
    base = hls_base(page)
    return base and hls_url_of(app=stream.application.name, name=stream.name, base=base, token=token)


def hls_url_of(*, app: str, name: str, base: str, token: str = "") -> str:
    """Of a name that need not be a stream's yet. `base`: of the HLS listener."""
    return f"{base}/hls/{f'{token}/' if token else ''}{app}/{quote(name, safe=SAFE)}/index.m3u8"


def hls_base(page: str = "") -> str:
    """http[s]://host[:port][/path], as browsers reach the HLS listener; empty where it is off. `page`: as of
    `media_base`."""
    return _http_base(settings.HLS_ADDRESS, settings.HLS_URL_BASE, page)


def watch_url(*, stream: Stream, token: str = "", site: str = "") -> str:
    """The page on which browsers watch it; empty where HLS is off. `site`: the dashboard's http[s]://host[:port], as
    it was reached, where no setting says its public one."""
    if settings.HLS_ADDRESS is None:
        return ""
    path = f"/watch/{_path(stream)}{f'?token={token}' if token else ''}"
    return absolute_url(path, site)


def _path(stream: Stream) -> str:
    return f"{stream.application.name}/{quote(stream.name, safe=SAFE)}"


def make_preview(*, stream: Stream, page: str) -> PlayLink | None:
    """Whoever has one of its URLs can look at the live stream, if that begins soon. `page`: the host by which who asks
    reaches the dashboard. None where the media listener is off."""
    has_media = settings.MEDIA_ADDRESS is not None
    return _link(stream, play_tokens.PREVIEW, play_tokens.PREVIEW.lifetime, page) if has_media else None


def _link(
    row: Stream | Recording, kind: play_tokens.Kind, lifetime: timedelta, page: str, *, generation: int = 1
) -> PlayLink:
    now, base = timezone.now().replace(microsecond=0), media_base(page)
    token = kind.issue(row.pk, generation=generation, lifetime=lifetime, now=now)
    rest = f"{_file(row)}?token={token}"
    return PlayLink(
        token=token,
        expires_at=now + lifetime,
        play_url=f"{name_url(app=row.application.name, name=row.name, page=page)}?token={token}",
        flv_url=f"{base}{rest}" if base else "",
        ws_url=f"{_ws(base)}{rest}" if base else "",
    )


def media_origins(page: str) -> list[str]:
    """By which a page of that host reaches the media listener: http[s] and ws[s]; none where that is off."""
    base = media_base(page)
    if not base:
        return []
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(base))
    return [origin, _ws(origin)]


def _file(row: Stream | Recording, form: Form = "flv") -> str:
    folder = "live" if isinstance(row, Stream) else "recordings"
    return f"/{folder}/{row.application.name}/{quote(row.name, safe=SAFE)}.{form}"


def _ws(base: str) -> str:
    return f"ws{base.removeprefix('http')}"


def recording_url(recording: Recording, form: Form = "flv", *, page: str = "") -> str:
    """By HTTP, of the newest recording of that name; empty where the media listener is off."""
    base = media_base(page)
    return f"{base}{_file(recording, form)}" if base else ""


def download_url(recording: Recording, form: Form = "flv") -> str:
    """By which whoever has it may download this one, if that begins soon; empty likewise."""
    url = recording_url(recording, form)
    return url and f"{url}?token={play_tokens.DOWNLOAD.issue(recording.pk)}"


def look_url(recording: Recording, *, page: str = "") -> str:
    """MP4, by which whoever has it may look at this one for an hour; empty likewise."""
    url = recording_url(recording, "mp4", page=page)
    return url and f"{url}?token={play_tokens.LOOK.issue(recording.pk)}"


def media_base(page: str = "") -> str:
    """http[s]://host[:port][/path], as browsers reach the media listener; empty where it is off.

    `page`: the host by which the dashboard was reached: a listener on all addresses is behind it too.
    """
    return _http_base(settings.MEDIA_ADDRESS, settings.MEDIA_URL_BASE, page)


def _http_base(address: tuple[str, int] | None, said: str, page: str) -> str:
    """Of a listener at the address (None: off), for whose URL a setting may have `said` another."""
    if address is None:
        return ""
    if said:
        return said
    host, port = address
    if page and host in WILDCARDS:
        host = page
    return f"http://{url_host(host)}:{port}"


def origins() -> frozenset[str]:
    """RTMPWEB_MEDIA_ORIGINS, else by what is known of the dashboard's own: "*" for all."""
    if settings.MEDIA_ORIGINS:
        return frozenset(origin.lower().rstrip("/") for origin in settings.MEDIA_ORIGINS)
    scheme = "https" if settings.BEHIND_TLS else "http"
    port = DEFAULT_PORTS["https"] if settings.BEHIND_TLS else (settings.HTTP_ADDRESS or ("", 80))[1]
    suffix = "" if port == DEFAULT_PORTS[scheme] else f":{port}"
    hosts = {f"{scheme}://{host}{suffix}" for host in settings.ALLOWED_HOSTS if not host.startswith(("*", "."))}
    return frozenset(origin.lower() for origin in hosts.union(settings.CSRF_TRUSTED_ORIGINS) if "*" not in origin)


def absolute_url(path: str, site: str = "") -> str:
    """By the dashboard's public URL, if there is one; else by `site`, as it was reached, or its own address."""
    if base := settings.PUBLIC_URL or site:
        return f"{base}{path}"
    host, port = settings.HTTP_ADDRESS or ("localhost", 8000)
    return f"http://[{host}]:{port}{path}" if ":" in host else f"http://{host}:{port}{path}"
