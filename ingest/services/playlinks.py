"""URLs by which streams and recordings are had from the media listener, and from which pages they may be."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.utils import timezone

from ingest.models import Recording, Stream
from ingest.services import paste, playtokens

MOST_HOURS: Final = 31 * 24
"""For which a token may be valid: it can't be revoked."""

USUAL_HOURS: Final = playtokens.LIFETIME / timedelta(hours=1)

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


@dataclass(frozen=True, slots=True)
class Preview:
    """Whoever has one of the URLs can look at the live stream, if that begins soon."""

    ws_url: str = field(repr=False)
    flv_url: str = field(repr=False)


def make(*, stream: Stream, lifetime: timedelta = playtokens.LIFETIME) -> PlayLink:
    now = timezone.now().replace(microsecond=0)
    token = playtokens.issue(stream=stream.pk, lifetime=lifetime, now=now)
    return _link(token, now + lifetime, paste.play_url(stream=stream), _live_file(stream))


def make_of_recording(*, recording: Recording, lifetime: timedelta = playtokens.LIFETIME) -> PlayLink:
    """Of this recording and no other of its name."""
    now = timezone.now().replace(microsecond=0)
    token = playtokens.issue_recording(recording=recording.pk, lifetime=lifetime, now=now)
    play_url = paste.name_url(app=recording.application.name, name=recording.name)
    return _link(token, now + lifetime, play_url, _recording_file(recording))


def _link(token: str, expires_at: datetime, play_url: str, file: str) -> PlayLink:
    query, base = f"?token={token}", media_base()
    return PlayLink(
        token=token,
        expires_at=expires_at,
        play_url=play_url + query,
        flv_url=f"{base}{file}{query}" if base else "",
        ws_url=f"{_ws(base)}{file}{query}" if base else "",
    )


def preview(*, stream: Stream, page: str) -> Preview | None:
    """`page`: the host by which who asks reaches the dashboard. None where the media listener is off."""
    base = media_base(page)
    if not base:
        return None
    rest = f"{_live_file(stream)}?token={playtokens.issue_preview(stream=stream.pk)}"
    return Preview(ws_url=f"{_ws(base)}{rest}", flv_url=f"{base}{rest}")


def media_origins(page: str) -> list[str]:
    """By which a page of that host reaches the media listener: http[s] and ws[s]; none where that is off."""
    base = media_base(page)
    if not base:
        return []
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(base))
    return [origin, _ws(origin)]


def _live_file(stream: Stream) -> str:
    return f"/live/{stream.application.name}/{quote(stream.name, safe=paste.SAFE)}.flv"


def _ws(base: str) -> str:
    return f"ws{base.removeprefix('http')}"


def recording_url(recording: Recording) -> str:
    """FLV by HTTP, of the newest recording of that name; empty where the media listener is off."""
    base = media_base()
    return f"{base}{_recording_file(recording)}" if base else ""


def _recording_file(recording: Recording) -> str:
    return f"/recordings/{recording.application.name}/{quote(recording.name, safe=paste.SAFE)}.flv"


def download_url(recording: Recording) -> str:
    """By which whoever has it may download this one, if that begins soon; empty likewise."""
    url = recording_url(recording)
    return url and f"{url}?token={playtokens.issue_download(recording=recording.pk)}"


def media_base(page: str = "") -> str:
    """http[s]://host[:port][/path], as browsers reach the media listener; empty where it is off.

    `page`: the host by which the dashboard was reached: a listener on all addresses is behind it too.
    """
    if settings.MEDIA_ADDRESS is None:
        return ""
    if settings.MEDIA_URL_BASE:
        return str(settings.MEDIA_URL_BASE)
    host, port = settings.MEDIA_ADDRESS
    if page and host in paste.WILDCARDS:
        host = page
    return f"http://{paste.url_host(host)}:{port}"


def origins() -> frozenset[str]:
    """RTMPWEB_MEDIA_ORIGINS, else by what is known of the dashboard's own: "*" for all."""
    if settings.MEDIA_ORIGINS:
        return frozenset(origin.lower().rstrip("/") for origin in settings.MEDIA_ORIGINS)
    scheme = "https" if settings.BEHIND_TLS else "http"
    port = DEFAULT_PORTS["https"] if settings.BEHIND_TLS else (settings.HTTP_ADDRESS or ("", 80))[1]
    suffix = "" if port == DEFAULT_PORTS[scheme] else f":{port}"
    hosts = {f"{scheme}://{host}{suffix}" for host in settings.ALLOWED_HOSTS if not host.startswith(("*", "."))}
    return frozenset(origin.lower() for origin in hosts.union(settings.CSRF_TRUSTED_ORIGINS) if "*" not in origin)
