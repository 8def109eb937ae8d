"""Sessions: finding them by the filters that the page, its exports and the API share, and a row of a list or a file.

With a year of history each filter has to stay cheap: what names a stream or a key is looked up in their small tables
first, and pages go on from the last row of the one before (by keyset), never by counting from the beginning."""

import ipaddress
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Concat
from django.utils import timezone

from dashboard.lists import PAGE_SIZE, filter_text, narrow
from dashboard.streams.queries import Now
from dashboard.templatetags.ui import HEALTH_CHIPS, ended_words, health_of
from dashboard.zones import given, moment
from ingest import viewing
from ingest.contracts import END_REASONS, end_of
from ingest.models import EncoderLogin, Session, Stream, StreamKey
from ingest.telemetry.series import COUNTERS, GAUGES, Series

OPEN_SHOWN = 200
"""Open sessions that stand before those that ended."""

MAX_NAMED = 500
"""Streams or keys that a text may name: one that fits more names nothing in particular."""

LOOKUPS = {
    "app": "app",
    "name": "name",
    "kind": "kind",
    "protocol": "protocol",
    "node": "node__name",
    "reason": "end_reason",
    "open": "ended_at__isnull",
    "test": "is_test",
    "since": "started_at__gte",
    "until": "started_at__lt",
}
ORDERS = {"open": "Open ones first", "new": "Newest first"}


def session_rows() -> QuerySet[Session]:
    """All of them with what a row shows, the last begun first."""
    return Session.objects.select_related("node", "key", "login", "stream").order_by("-started_at", "-pk")


def matching(values: Mapping[str, Any]) -> QuerySet[Session]:
    """Those that match each given value: of LOOKUPS, or `stream`, `address`, `encoder`, `key` (texts), `ended_within`
    (seconds). None and "" filter nothing.
    """
    rows = narrow(session_rows(), LOOKUPS, values)
    for name, condition in CONDITIONS.items():
        if values.get(name) not in (None, ""):
            rows = rows.filter(condition(values[name]))
    return rows


def _of_stream(text: str) -> Q:
    """Streams with the text in their path; where there is none, a deleted one of exactly this path."""
    paths = Stream.objects.annotate(path_text=Concat("application__name", Value("/"), "name"))
    known = list(paths.filter(path_text__icontains=text).values_list("pk", flat=True)[:MAX_NAMED])
    if known:
        return Q(stream=known[0]) if len(known) == 1 else Q(stream__in=known)
    app, _, name = text.partition("/")
    return Q(app=app, name=name)


def _of_address(text: str) -> Q:
    """A whole address, or the beginning of one."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return Q(address__startswith=text)
    return Q(address=text)


def _of_key(text: str) -> Q:
    """A key's label or first characters; an encoder log-in's user."""
    keys = StreamKey.objects.filter(Q(label__icontains=text) | Q(prefix__startswith=text))
    logins = EncoderLogin.objects.filter(Q(user__icontains=text) | Q(label__icontains=text))
    return Q(key__in=list(keys.values_list("pk", flat=True)[:MAX_NAMED])) | Q(
        login__in=list(logins.values_list("pk", flat=True)[:MAX_NAMED])
    )


CONDITIONS: dict[str, Callable[[Any], Q]] = {
    "stream": _of_stream,
    "address": _of_address,
    "encoder": lambda text: Q(encoder__icontains=text),
    "key": _of_key,
    "ended_within": lambda seconds: Q(ended_at__gte=timezone.now() - timedelta(seconds=seconds)),
}

# --- The page's query string ---

CHOICES: dict[str, dict[str, Any]] = {
    "kind": {"": "publish", "publish": "publish", "play": "play", "all": None},
    "state": {"": None, "open": True, "ended": False},
    "test": {"": None, "yes": True, "no": False},
}
"""By the word in the query string: what is filtered. Publishers are what operators look for, so they come unasked."""


NARROW = ("address", "encoder", "protocol", "key", "node", "since", "until")
"""What the form keeps folded, beside `test`."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """What a query string asks for. A value that can't be understood filters nothing."""

    shown: dict[str, str]
    """The texts, as the form shows them again."""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "SessionFilter":
        names = (*NARROW, "stream", "reason", "order", *CHOICES)
        texts = {name: query.get(name, "") for name in names} | {
            name: given(query, name) for name in ("since", "until")
        }
        return cls({name: filter_text(text) for name, text in texts.items()})

    @property
    def order(self) -> str:
        return self.shown["order"] if self.shown["order"] in ORDERS else "open"

    @property
    def since(self) -> datetime | None:
        return moment(self.shown["since"])

    @property
    def until(self) -> datetime | None:
        return moment(self.shown["until"])

    @property
    def is_filtered(self) -> bool:
        return any(value for name, value in self.shown.items() if name not in ("order", "kind"))

    @property
    def is_narrow(self) -> bool:
        """Whether one of the filters is set that the form keeps folded."""
        return any(self.shown[name] for name in (*NARROW, "test"))

    def rows(self) -> QuerySet[Session]:
        values: dict[str, Any] = {name: words.get(self.shown[name]) for name, words in CHOICES.items()}
        values |= {"open": values["state"], "since": self.since, "until": self.until}
        values["protocol"] = self.shown["protocol"] if self.shown["protocol"] in Session.Protocol.values else None
        values["reason"] = self.shown["reason"] if self.shown["reason"] in END_REASONS else None
        return matching(self.shown | values)

    def page(self, cursor: str) -> "PageOf":
        """`cursor`: where the page before ended, "" for the first."""
        rows, after = self.rows(), _place(cursor)
        first: list[Session] = []
        if self.order == "open":
            if after is None:
                first = list(rows.filter(ended_at__isnull=True)[:OPEN_SHOWN])
            rows = rows.filter(ended_at__isnull=False)
        if after is not None:
            at, pk = after
            rows = rows.filter(Q(started_at__lt=at) | Q(started_at=at, pk__lt=pk), started_at__lte=at)
        found = list(rows[: PAGE_SIZE + 1])
        older = ""
        if len(found) > PAGE_SIZE:
            last = found[PAGE_SIZE - 1]
            older = f"{last.started_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}_{last.pk}"
        return PageOf([*first, *found[:PAGE_SIZE]], older, after is not None)


@dataclass(frozen=True, slots=True)
class PageOf:
    rows: list[Session]
    older: str
    """The cursor of the next page; "": there is none."""
    is_later: bool
    """Whether there are newer ones before it."""


def _place(cursor: str) -> tuple[datetime, uuid.UUID] | None:
    text, _, pk = cursor.partition("_")
    at = moment(text)
    try:
        return (at, uuid.UUID(pk)) if at else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class SessionRow:
    """With its state in words, and its figures: `size_bytes` of media, `kbps` on the mean (of a live one: now)."""

    session: Session
    style: str
    words: str
    size_bytes: int | None
    kbps: float | None

    @classmethod
    def of(cls, session: Session, now: Now) -> "SessionRow":
        is_publish = session.kind == Session.Kind.PUBLISH
        if session.ended_at is None:
            snapshot = now.by_id.get(session.stream_id or 0)
            own = snapshot if snapshot and is_publish and snapshot["session_id"] == str(session.pk) else None
            health = health_of(own) if own else "none"
            words = (f"Live, {HEALTH_CHIPS[health].word.lower()}" if own else "Live") if is_publish else "Playing"
            kbps = (own["video_kbps"] or 0) + (own["audio_kbps"] or 0) if own else None
            return cls(session, HEALTH_CHIPS[health].classes if is_publish else "good", words, None, kbps)
        size = session.total("bytes_in" if is_publish else "bytes_out")
        seconds = ((session.ended_at or timezone.now()) - session.started_at).total_seconds()
        style = "plain" if end_of(session.end_reason).is_expected else "bad"
        kbps = size * 8 / 1000 / seconds if size and seconds >= 1 else None
        return cls(session, style, ended_words(session), size, kbps)


MOST_ROWS = 50_000

TOTALS = ("bytes_in", "bytes_out", "video_frames", "audio_frames", "keyframes")
FIELDS = (
    *("id", "kind", "app", "name", "is_test", "started_at", "ended_at", "end_reason", "end_description", "address"),
    *("protocol", "encoder", "node", "key", "video_codec", "audio_codec", "width", "height"),
    *TOTALS,
    *viewing.REPORT,
)
EVENT_FIELDS = ("sequence", "at", "kind", "level", "code", "description", "detail")


def session_values(row: Session) -> dict[str, Any]:
    """A session's row of an export. A key goes by its label: no part of a secret is in it."""
    values = {name: row.summary.get(name) if name in viewing.REPORT else getattr(row, name) for name in FIELDS}
    values |= {name: row.total(name) for name in TOTALS}
    return values | {"id": str(row.pk), "node": row.node.name if row.node else None, "key": str(row.key or "") or None}


def series_rows(series: Series) -> tuple[list[str], Iterator[list[Any]]]:
    """Columns and rows of a series: seconds since the epoch, gauges (with their extremes where they are gathered)."""
    gathered = series.step_s > 0
    parts = [(name, series.values) for name in (*GAUGES, *COUNTERS)]
    names = [name for name, _ in parts]
    if gathered:
        names += [f"{name}_{end}" for name in GAUGES for end in ("min", "max")]
        parts += [(name, which) for name in GAUGES for which in (series.low, series.high)]
    rows = (
        [at, health, *(columns[name][place] for name, columns in parts)]
        for place, (at, health) in enumerate(zip(series.at, series.health, strict=True))
    )
    return ["at", "health", *names], rows
