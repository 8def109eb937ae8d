"""Pull sources: what people set up, what a node is to pull, and by what a pull may publish. A pull is a publisher as
any other (docs/adr/0029): its lease decides which node has it, and an encoder's takeover ends it."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.core import signing
from django.core.exceptions import ValidationError
from django.db.models import CharField, DateTimeField, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from ingest import clean
from ingest.contracts.relays import PullOrder
from ingest.credentials import query_fields
from ingest.models import Node, PullSource, Session
from ingest.services import audit
from ingest.services.audit import Actor
from ingest.services.play_tokens import Verdict
from ingest.services.relay_urls import split_pull
from ingest.services.sealing import seal, unseal
from ingest.services.sql import Given, Prepared

PURPOSE: Final = "pull"
"""Of sealing."""

# --- What people do ---


def save(actor: Actor, source: PullSource, values: Mapping[str, Any]) -> None:
    """Makes it, or changes it: `url` (whole, with the stream's name; empty: as it was), `when`, `enabled`. Raises
    ValidationError, by field."""
    is_new = source.pk is None
    fields: dict[str, Any] = {name: values[name] for name in ("when", "enabled") if name in values}
    url = values.get("url", "").strip()
    if is_new or url:
        try:
            found = split_pull(url)
        except ValidationError as problem:
            raise ValidationError({"url": problem.messages}) from None
        fields |= {"shown": found.shown, "sealed": seal(PURPOSE, json.dumps({"url": found.url, "name": found.name}))}
    before = {name: getattr(source, name) for name in fields if name != "sealed"}
    for name, value in fields.items():
        setattr(source, name, value)
    source.full_clean(exclude=["sealed", "shown"])
    changed = {name: [before[name], fields[name]] for name in before if is_new or before[name] != fields[name]}
    detail = {name: pair[1] for name, pair in changed.items()} if is_new else {"changed": changed}
    with audit.audited(
        actor, f"pull_source.{'create' if is_new else 'change'}", name_of(source), stream=source.stream, **detail
    ):
        source.save()


def remove(actor: Actor, source: PullSource) -> None:
    """What is pulled ends within 2 s."""
    with audit.audited(actor, "pull_source.delete", name_of(source), stream=source.stream, shown=source.shown):
        source.delete()


def name_of(source: PullSource) -> str:
    return f"{source.stream.path}: {source.shown}"


# --- What a node pulls ---


@dataclass(frozen=True, slots=True)
class Pull:
    """A source, as the node goes by it."""

    pk: int
    stream: int
    path: str
    when: str
    sealed: str = field(repr=False)
    session: str
    """That holds the stream's lease; "": none, or none any more, and the stream is wanted."""
    is_waited_for: bool
    """By viewers of a packager."""

    def order(self, credential: str) -> PullOrder:
        """Raises `sealing.Unreadable`."""
        found: dict[str, str] = json.loads(unseal(PURPOSE, self.sealed))
        return {
            "source": self.pk,
            "path": self.path,
            "url": found["url"],
            "name": found["name"],
            "credential": credential,
            "private_allowed": settings.RELAY_PRIVATE,
        }


LEASE: Final = ("stream__lease__session", "stream__lease__expires_at")
COLUMNS: Final = ("pk", "stream", "stream__application__name", "stream__name", "when", "sealed", "wanted_until", *LEASE)

WANTED: Final = timedelta(seconds=20)
"""After a viewer was told that the stream has not begun: a watch page asks again sooner."""


def on_demand(*, stream: int) -> int | None:
    """The source from which the stream is pulled while somebody plays it."""
    rows = _sources().filter(stream=stream, when=PullSource.When.DEMAND)
    return rows.values_list("pk", flat=True).first()


def want(source: int, *, now: datetime) -> None:
    """Viewers by HLS are sessions only once there is something to watch; so that somebody waits is said here. `now`: by
    the clock that nodes share."""
    PullSource.objects.filter(pk=source).update(wanted_until=now + WANTED)


def candidates(*, node: str, waiting: Collection[str], now: datetime) -> list[Pull]:
    """Sources of streams that are wanted and that nobody publishes, and of those that this node publishes: which of
    these it is to pull is its business. Origins alone pull: also what players wait for on an edge. `waiting`: the paths
    that players wait for here; `now`: by the clock that nodes share. Asked each second."""
    found = [_pull(row, now) for row in _candidates.ask(node=node, now=now)]
    if waiting:
        names = {path.partition("/")[2] for path in waiting}
        rows = _sources().filter(~_is_live(now), _is_origin(node), when=PullSource.When.DEMAND, stream__name__in=names)
        known = {each.pk for each in found}
        here = (_pull(row, now) for row in rows.order_by("pk").values_list(*COLUMNS))
        found += [each for each in here if each.path in waiting and each.pk not in known]
    return found


def _pull(row: tuple[Any, ...], now: datetime) -> Pull:
    pk, stream, app, name, when, sealed, wanted_until, session, expires_at = row
    holder = str(session) if session and expires_at > now else ""
    is_waited_for = wanted_until is not None and wanted_until > now
    return Pull(pk, stream, f"{app}/{name}", when, sealed, holder, is_waited_for)


AWAY: Final = (Node.Role.EDGE, Node.Role.PACKAGER)
"""Where nothing is pulled."""


@Prepared
def _candidates() -> "QuerySet[PullSource, Any]":
    live = _is_live(Given("now", DateTimeField()))
    here = Q(stream__lease__node__name=Given("node", CharField()))
    open_ = Session.objects.filter(kind=Session.Kind.PLAY, ended_at__isnull=True, stream=OuterRef("stream"))
    waits = Q(wanted_until__gt=Given("now", DateTimeField()))
    asked = Q(when=PullSource.When.DEMAND) & (Exists(open_.filter(node__role__in=AWAY)) | waits)
    offered = _is_origin(Given("node", CharField())) & (Q(when=PullSource.When.ALWAYS) | asked)
    return _sources().filter((live & here) | (~live & offered)).order_by("pk").values_list(*COLUMNS)


def _is_origin(node: str | Given) -> Q:
    return Q(Exists(Node.objects.filter(name=node, role=Node.Role.ORIGIN)))


def _sources() -> "QuerySet[PullSource]":
    return PullSource.objects.filter(enabled=True, stream__enabled=True, stream__application__enabled=True)


def _is_live(now: datetime | Given) -> Q:
    return Q(stream__lease__session__isnull=False, stream__lease__expires_at__gt=now)


def secrets_of(order: PullOrder) -> list[str]:
    """What the other server may quote of it, and nobody is shown."""
    user = order["url"].partition("://")[2].rpartition("@")[0]
    query = order["name"].partition("?")[2]
    return [user, *user.split(":"), query, *query_fields(query).values()]


@dataclass(frozen=True, slots=True)
class PullRow:
    """A pull has changed its state, as history writes it. Texts are masked."""

    source: int
    node: str
    at: datetime
    state: str
    failure: str
    code: str
    description: str


def set_state(row: PullRow) -> None:
    fields = {"state": row.state, "state_since": row.at, "node": clean.text(row.node, 128)}
    if row.state != "connecting":
        fields |= {"failure": row.failure, "code": row.code, "description": row.description}
    PullSource.objects.filter(pk=row.source).update(**fields)


# --- By what it publishes ---

SALT: Final = "ingest.pull"
LIFETIME: Final = timedelta(minutes=10)


def credential(source: int, stream: int, *, now: datetime | None = None) -> str:
    """Permits to publish the stream, for a while, as what the source gives."""
    expires = (now or timezone.now()) + LIFETIME
    return signing.dumps({"p": source, "s": stream, "x": int(expires.timestamp())}, salt=SALT)


def read_credential(text: str, *, now: datetime) -> tuple[PullSource | None, Verdict]:
    """The source that it is for, with its stream and application. None and "invalid": it is no such credential; None
    and "expired": the source is not there any more, is off, or is of another stream now."""
    try:
        found: dict[str, Any] = signing.loads(text, salt=SALT)
    except signing.BadSignature:
        return None, "invalid"
    rows = PullSource.objects.filter(pk=found["p"], stream=found["s"], enabled=True)
    source = rows.select_related("stream__application").first()
    if source is None:
        return None, "expired"
    return source, "valid" if found["x"] > now.timestamp() else "expired"


ENCODER: Final = "Pull: "
"""Before what is shown of the source: what its session has in place of an encoder's name."""


def encoder_of(source: PullSource) -> str:
    return f"{ENCODER}{source.shown}"
