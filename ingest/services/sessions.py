"""Sessions: one publishing or playing each. They begin in admission and end exactly once, here.

What a node must end (`due`) is read once a second, in one query, since the channel layer may drop or be absent."""

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import Case, CharField, DateTimeField, Exists, OuterRef, Q, QuerySet, When
from django.utils import timezone

from ingest import clean, viewing
from ingest.contracts import END_REASONS, EndReason, Totals
from ingest.models import Application, EncoderLogin, Recording, Session, StatusEvent, Stream, StreamKey, names
from ingest.services import database, encoder_login, leases, outbox
from ingest.services.sql import Given, Prepared, set_each, update_each

logger = logging.getLogger(__name__)

TOTALS = ("bytes_in", "bytes_out", "video_frames", "audio_frames", "keyframes")
SUMMARY = ("dropped_frames", "duration_ms", *viewing.REPORT)
"""Totals that have no column of their own."""

END = ("ended_at", "end_reason", "end_description")

MEDIA = ("video_codec", "audio_codec", "width", "height")
"""Fields of a session that the sequence headers tell; the rest of MediaInfo goes into its summary."""


@dataclass(frozen=True, slots=True)
class EndRow:
    """How a session ends. `at`: None: now."""

    session: uuid.UUID
    reason: EndReason
    description: str = ""
    at: datetime | None = None
    totals: Totals | None = None


def end(
    *,
    session: uuid.UUID,
    reason: EndReason,
    description: str = "",
    at: datetime | None = None,
) -> bool:
    """Ends one session, as `end_all` does. False: it had ended already, and stays as it was."""
    with transaction.atomic():
        return bool(end_all([EndRow(session, reason, description, at)], outbox.hold_of([session])))


def end_all(endings: Sequence[EndRow], held: outbox.Held) -> list[uuid.UUID]:
    """Ends the sessions, in this order, and frees their leases; within a transaction. Returns which of them ended now:
    who had ended already stays as it was.

    Where one ends as it was asked to, what was noted with the request stands in for the description.

    What others may wait for is held in one order, here and in admission: what the streams were told (`held`), the
    leases, the sessions, their keys. Who ends several has held their leases before (`leases.hold`).
    """
    about: dict[uuid.UUID, EndRow] = {}
    for ending in endings:
        about.setdefault(ending.session, ending)
    leases.release(sessions=list(about))
    open_ = Session.objects.select_related("stop_by", "node").filter(pk__in=list(about), ended_at__isnull=True)
    rows = {row.pk: row for row in open_.select_for_update(of=("self",), no_key=True).order_by("pk")}
    ended = [_finish(rows[session], ending) for session, ending in about.items() if session in rows]
    update_each(sorted(ended, key=lambda row: row.pk), [*END, *TOTALS, "summary"])
    _used(StreamKey, {row.key_id: row.ended_at for row in ended})
    _used(EncoderLogin, {row.login_id: row.ended_at for row in ended})
    outbox.unpublished([row for row in ended if row.kind == Session.Kind.PUBLISH], held)
    return [row.pk for row in ended]


def _finish(row: Session, ending: EndRow) -> Session:
    description = ending.description
    if ending.reason == row.stop_requested and (row.stop_note or row.stop_by is not None):
        description = row.stop_note or f"Ended by {row.stop_by.get_username()}."  # type: ignore[union-attr]
    row.ended_at = max(ending.at or timezone.now(), row.started_at)
    row.end_reason, row.end_description = ending.reason, clean.text(description, 255)
    if ending.totals is not None:
        _set_totals(row, ending.totals)
    return row


def _set_totals(row: Session, totals: Totals) -> None:
    for name in TOTALS:
        setattr(row, name, totals[name])  # type: ignore[literal-required]
    row.summary |= {name: value for name, value in totals.items() if name in SUMMARY}


def _used(of: type[StreamKey | EncoderLogin], at: Mapping[int | None, datetime | None]) -> None:
    set_each(of, ["last_used_at"], ((at[pk], pk) for pk in sorted(pk for pk in at if pk is not None)))


MAX_AGE = timedelta(days=7)
"""Sessions that ended longer ago are not filled in any more: a lake keeps samples for some weeks."""
AT_ONCE = 20


def uncounted(*, now: datetime, besides: Collection[uuid.UUID], node: str = "") -> list[Session]:
    """Publishers whose node died before it told what it had counted: those of `node` first, then the latest. AT_ONCE at
    most. Players have no samples."""
    lost = Session.objects.filter(
        kind=Session.Kind.PUBLISH, is_test=False, end_reason="node_lost", ended_at__gt=now - MAX_AGE
    )
    rows = lost.exclude(summary__has_key="duration_ms").exclude(pk__in=list(besides))
    own = Case(When(node__name=node, then=0), default=1)
    return list(rows.select_related("node").order_by(own, "-started_at")[:AT_ONCE])


def fill_in(*, session: uuid.UUID, totals: Totals, last_at: datetime, now: datetime) -> bool:
    """Gives such a session what its samples add up to; it ended with the last of them. False: it has its totals."""
    with transaction.atomic():
        row = Session.objects.select_for_update().filter(pk=session).first()
        if row is None or not row.is_uncounted:
            return False
        row.ended_at = max(row.started_at, min(last_at, now))
        _set_totals(row, totals)
        row.summary["from_samples"] = True
        row.save(update_fields=["ended_at", "summary", *TOTALS])
        return True


def join_streams(streams: Sequence[Stream]) -> None:
    """Whoever waited for the names before these streams were made, plays them from now on."""
    if not streams:
        return
    waiting = Session.objects.filter(kind=Session.Kind.PLAY, stream=None, ended_at__isnull=True)
    names = waiting.filter(name__in={stream.name for stream in streams}).order_by()
    awaited = set(names.values_list("app", "name").distinct())
    for stream in streams:
        if (stream.application.name, stream.name) in awaited:
            waiting.filter(app=stream.application.name, name=stream.name).update(stream=stream)


def discard(*, session: uuid.UUID, silent_since: datetime | None = None) -> None:
    """Undoes an admission that came too late: the session never was. Who it took the stream over from has it again.

    `silent_since`: of that one, when the stream was taken over.
    """
    with transaction.atomic():
        row = Session.objects.filter(pk=session).first()
        former = _displaced_by(row) if row is not None else None
        if former is None:
            leases.release(sessions=[session])
        else:
            given = leases.give_back(
                session=session, former=former, silent_since=silent_since, now=database.read_shared_clock()
            )
            if given and not _unmark_replaced(session=former.pk):
                leases.release(sessions=[former.pk])
        Session.objects.filter(pk=session).delete()


def _displaced_by(row: Session) -> Session | None:
    """The open session that ends only since this one took the stream over from it: the latest of the stream before."""
    if row.is_test:
        return None
    others = Session.objects.filter(
        stream=row.stream_id, kind=Session.Kind.PUBLISH, ended_at__isnull=True, is_test=False
    )
    latest = others.exclude(pk=row.pk).order_by("-started_at").first()
    return latest if latest is not None and latest.stop_requested == "replaced" else None


def open_publisher(stream: Stream) -> Session | None:
    """Who publishes it, for more than a test."""
    sessions = stream.sessions.filter(kind=Session.Kind.PUBLISH, ended_at__isnull=True, is_test=False)
    return sessions.order_by("-started_at").first()


@dataclass(frozen=True, slots=True)
class MediaRow:
    """What the sequence headers say, beside what the publisher claims."""

    session: uuid.UUID
    media: Mapping[str, Any]
    metadata: Mapping[str, Any]


def set_media(media: Sequence[MediaRow]) -> None:
    """Keeps it with the sessions, with what their encoders are called; within a transaction."""
    if not media:
        return
    about = [one.session for one in media]
    rows = {row.pk: row for row in Session.objects.select_for_update(no_key=True).filter(pk__in=about).order_by("pk")}
    for one in media:
        row = rows.get(one.session)
        if row is None:
            continue
        for name in MEDIA:
            if name in one.media:
                value = one.media[name]
                setattr(row, name, clean.text(value, 32) if isinstance(value, str) else value)
        row.encoder = clean.text(clean.encoder_name(row.encoder, one.metadata), 255)
        row.summary |= {
            "media": clean.jsonable({name: value for name, value in one.media.items() if name not in MEDIA}),
            "metadata": clean.jsonable(one.metadata),
        }
    update_each(list(rows.values()), [*MEDIA, "encoder", "summary"])


def request_stop(
    *, session_id: uuid.UUID | str, reason: EndReason = "kicked", by: AbstractBaseUser | None = None, note: str = ""
) -> bool:
    """Asks the session's node to end it: by the database, which it reads each second, and, once that is committed,
    faster by the channel layer.

    `note` becomes the description of its end. False: the session has ended already.
    """
    changed = Session.objects.filter(pk=session_id, ended_at__isnull=True).update(
        stop_requested=reason, stop_by=by, stop_note=clean.text(note, 255)
    )
    if not changed:
        return False
    channel = Session.objects.values_list("channel", flat=True).get(pk=session_id)
    transaction.on_commit(lambda: async_to_sync(send_stop)(channel=channel, session_id=session_id, reason=reason))
    return True


async def send_stop(*, channel: str, session_id: uuid.UUID | str, reason: EndReason) -> None:
    """The quick way to have a session ended. Whatever the layer's trouble: its node reads the database."""
    layer = get_channel_layer()
    if layer is None or not channel:
        return
    message = {"type": "session.stop", "session_id": str(session_id), "reason": reason}
    try:
        await layer.send(channel, message)
    except Exception as error:
        logger.warning("The channel layer did not take a stop request: %s", type(error).__name__)


def end_players(streams: Collection[Stream] | QuerySet[Stream], *, note: str) -> None:
    """Asks the nodes to end all that play the streams and their recordings; a download goes on. Who may play it still
    can come back."""
    open_ = Session.objects.filter(stream__in=streams, kind=Session.Kind.PLAY, ended_at__isnull=True, stop_requested="")
    open_.update(stop_requested="key_revoked", stop_note=clean.text(note, 255))


def mark_replaced(*, session: uuid.UUID, note: str) -> None:
    """Asks the session's node to end it, since another took its stream over. An earlier request stays as it was."""
    Session.objects.filter(pk=session, ended_at__isnull=True, stop_requested="").update(
        stop_requested="replaced", stop_note=clean.text(note, 255)
    )


def _unmark_replaced(*, session: uuid.UUID) -> bool:
    """False: it has ended, or is to end for another reason."""
    open_ = Session.objects.filter(pk=session, ended_at__isnull=True, stop_requested="replaced")
    return bool(open_.update(stop_requested="", stop_note=""))


def event_payload(event: StatusEvent) -> dict[str, Any]:
    """A status event as pages get it by WebSocket: `at` in seconds since the epoch."""
    return {
        "sequence": event.sequence,
        "at": event.at.timestamp(),
        "kind": event.kind,
        "level": event.level,
        "code": event.code,
        "description": event.description,
        "detail": event.detail,
        "session_id": str(event.session_id),
    }


ASKED_AT_ONCE = 1000
"""Sessions in one query: a node may have ten thousand players."""


def due_to_end(*, node: str, now: datetime) -> list[tuple[uuid.UUID, EndReason]]:
    """The node's open sessions that must end, each with its reason.

    An explicit request comes first, then a key test that has lasted for as long as one may; else a key or a log-in that
    was revoked, disabled, deleted or has expired, or a stream or application that was disabled or deleted. Who plays a
    recording that belongs to no stream may go on, and so may who waits for a name that anyone may come to publish,
    unless a stream of that name is disabled.
    """
    test_over = now - names.TEST_MOST
    rows = _due.ask(node=node, now=now, test_over=test_over)
    return [(pk, _reason(asked, is_over=is_test and started <= test_over)) for pk, asked, is_test, started in rows]


@Prepared
def _due() -> "QuerySet[Session, Any]":
    now, test_over = Given("now", DateTimeField()), Given("test_over", DateTimeField())
    key_revoked = Q(key__revoked_at__isnull=False) & (Q(key__grace_until__isnull=True) | Q(key__grace_until__lte=now))
    key_deleted = Q(
        kind=Session.Kind.PUBLISH,
        key__isnull=True,
        login__isnull=True,
        is_pull=False,
        stream__application__publish_policy=Application.PublishPolicy.KEY,
    )
    of_no_stream = Recording.objects.filter(
        stream=None, name=OuterRef("name"), application__name=OuterRef("app"), application__enabled=True
    )
    of_open = Application.objects.filter(
        name=OuterRef("app"), enabled=True, publish_policy=Application.PublishPolicy.OPEN
    )
    disabled = Stream.objects.filter(name=OuterRef("name"), application__name=OuterRef("app"), enabled=False)
    awaits = Q(kind=Session.Kind.PLAY) & Exists(of_open) & ~Exists(disabled)
    return (
        Session.objects.filter(node__name=Given("node", CharField()), ended_at__isnull=True)
        .filter(
            ~Q(stop_requested="")
            | Q(key__enabled=False)
            | key_revoked
            | Q(key__expires_at__lte=now)
            | key_deleted
            | encoder_login.gone(now)
            | (Q(stream__isnull=True) & ~Exists(of_no_stream) & ~awaits)
            | Q(stream__enabled=False)
            | Q(stream__application__enabled=False)
            | Q(is_test=True, started_at__lte=test_over)
        )
        .order_by()
        .values_list("pk", "stop_requested", "is_test", "started_at")
    )


def _reason(asked: str, *, is_over: bool) -> EndReason:
    if asked in END_REASONS:
        return asked
    return "test_over" if is_over else "key_revoked"


def end_reasons_of_lost(*, sessions: Collection[uuid.UUID]) -> list[tuple[uuid.UUID, EndReason]]:
    """Why each of these sessions, which have lost their leases, ends: as was asked, such as replaced, or lease_lost."""
    asked = dict(Session.objects.filter(pk__in=sessions).order_by().values_list("pk", "stop_requested"))
    return [(pk, found if (found := asked.get(pk, "")) in END_REASONS else "lease_lost") for pk in sessions]


def ended_elsewhere(*, sessions: Collection[uuid.UUID]) -> list[tuple[uuid.UUID, EndReason]]:
    """Which of these sessions have ended in the database, as those of a node that was taken for dead."""
    asked = list(sessions)
    found: list[uuid.UUID] = []
    for start in range(0, len(asked), ASKED_AT_ONCE):
        some = asked[start : start + ASKED_AT_ONCE]
        found += Session.objects.filter(pk__in=some, ended_at__isnull=False).order_by().values_list("pk", flat=True)
    return [(pk, "lease_lost") for pk in found]
