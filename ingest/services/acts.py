"""What people do, wherever they ask for it: each act with its entry of the audit log, in one transaction.

Keys have theirs in `keyacts`; what is changed in a form of the admin, in `ingest.auditedadmin`.
"""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from ingest import sharedclock
from ingest.models import Application, Ban, EncoderLogin, Node, Recording, Session, Stream
from ingest.services import (
    audit,
    bans,
    encoderlogin,
    instances,
    nodes,
    playlinks,
    recordingimport,
    recordings,
    sessions,
)
from ingest.services.audit import Actor


def kick(actor: Actor, session: Session, *, note: str = "") -> bool:
    """Asks for the end of a session. False: it has ended already."""
    said = note.rstrip(" .")
    sentence = f"Ended by {actor.name}: {said}." if said else f"Ended by {actor.name}."
    with transaction.atomic():
        if not sessions.request_stop(session_id=session.pk, reason="kicked", by=actor.user, note=sentence):
            return False
        target = f"{session.app}/{session.name}"
        detail = {"note": said, "kind": session.kind}
        audit.record(actor, "session.kick", target, stream=session.stream, session=session, **detail)
    return True


def make_stream(actor: Actor, application: Application, name: str) -> Stream:
    """The stream of the name, made if it isn't there. The name has been validated. Raises ValidationError for one of an
    instance too many."""
    with transaction.atomic():
        instances.check_room(application=application, made=[name])
        stream, made = Stream.objects.get_or_create(application=application, name=name)
        if made:
            audit.record(actor, "stream.create", stream.path, stream=stream)
    return stream


def enable(actor: Actor, row: Stream | Application, enabled: bool) -> None:
    """What is disabled, or is in a disabled application, is refused to all, and ends within 2 s."""
    if row.enabled == enabled:
        return
    stream = row if isinstance(row, Stream) else None
    with transaction.atomic():
        row.enabled = enabled
        row.save(update_fields=["enabled"])
        subject, verb = "stream" if stream else "application", "enable" if enabled else "disable"
        audit.record(actor, f"{subject}.{verb}", str(row), stream=stream)


def play_link(actor: Actor, *, stream: Stream, lifetime: timedelta) -> playlinks.PlayLink:
    """A token that plays the stream, and the URLs with it. The entry says until when, never the token."""
    with transaction.atomic():
        link = playlinks.make(stream=stream, lifetime=lifetime)
        audit.record(actor, "play_token.create", stream.path, stream=stream, expires_at=link.expires_at)
    return link


# --- Recordings ---


def recording_link(actor: Actor, *, recording: Recording, lifetime: timedelta) -> playlinks.PlayLink:
    """A token that plays the recording, and the URLs with it. The entry says until when, never the token."""
    with transaction.atomic():
        link = playlinks.make_of_recording(recording=recording, lifetime=lifetime)
        name, until = name_of(recording), link.expires_at
        audit.record(
            actor, "recording_token.create", name, stream=recording.stream, file=recording.file, expires_at=until
        )
    return link


def delete_recording(actor: Actor, recording: Recording, *, note: str = "") -> None:
    """With its file. Raises RecordingProblem, also for a file that can't be deleted."""
    name, file, stream = name_of(recording), recording.file, recording.stream
    try:
        with transaction.atomic():
            recordings.delete(recording)
            audit.record(actor, "recording.delete", name, stream=stream, file=file, note=note)
    except OSError as error:
        raise recordings.RecordingProblem(f"Its file can't be deleted: {error.strerror}.") from None


def keep_recording(actor: Actor, recording: Recording, keep: bool) -> None:
    """Whether it is spared when old recordings go."""
    with transaction.atomic():
        recording.keep = keep
        recording.save(update_fields=["keep"])
        verb = "keep" if keep else "unkeep"
        audit.record(actor, f"recording.{verb}", name_of(recording), stream=recording.stream, file=recording.file)


def import_recording(actor: Actor, *, stream: Stream, name: str, source: Path) -> Recording:
    """What is raised: as of `recordingimport.add`."""
    recording = recordingimport.add(stream=stream, name=name, source=source)
    audit.record(actor, "recording.import", name_of(recording), stream=stream, file=recording.file)
    return recording


def name_of(recording: Recording) -> str:
    return f"{recording.application.name}/{recording.name}"


# --- Nodes ---


def drain_node(actor: Actor, name: str, *, grace_s: int) -> Node:
    """Raises NodeError, as all of a node do."""
    with transaction.atomic():
        node = nodes.request_drain(name=name, grace_s=grace_s, now=sharedclock.look())
        audit.record(actor, "node.drain", name, grace_s=grace_s)
    return node


def resume_node(actor: Actor, name: str) -> Node:
    with transaction.atomic():
        node = nodes.cancel_drain(name=name)
        audit.record(actor, "node.resume", name)
    return node


def forget_node(actor: Actor, name: str) -> Node:
    with transaction.atomic():
        node = nodes.forget(name=name)
        audit.record(actor, "node.forget", name)
    return node


# --- Bans ---


def lift_bans(actor: Actor, addresses: Iterable[str]) -> int:
    """Hears the addresses again; how many bans there were. Raises ValidationError."""
    lifted = 0
    with transaction.atomic():
        for address in addresses:
            found = bans.lift(address=address, now=timezone.now(), by=actor.user)
            if found:
                audit.record(actor, "ban.lift", address)
            lifted += found
    return lifted


def ban(actor: Actor, *, address: str, seconds: int) -> Ban:
    """Raises ValidationError."""
    with transaction.atomic():
        made = bans.impose(address=address, seconds=seconds, now=timezone.now())
        audit.record(actor, "ban.create", made.address, seconds=seconds)
    return made


# --- Encoders' log-ins ---


def make_login(actor: Actor, *, stream: Stream, user: str, **rights: Any) -> encoderlogin.NewPassword:
    """`rights` and what is raised: as of `encoderlogin.create`."""
    with transaction.atomic():
        made = encoderlogin.create(stream=stream, user=user, **rights)
        audit.record(actor, "encoder_login.create", audit.name_of(made.login), stream=stream)
    return made


def set_login_password(actor: Actor, login: EncoderLogin, *, password: str = "") -> encoderlogin.NewPassword:
    """Raises ValidationError."""
    with transaction.atomic():
        made = encoderlogin.set_password(login=login, password=password)
        audit.record(actor, "encoder_login.password", audit.name_of(login), stream=login.stream)
    return made


def revoke_login(actor: Actor, login: EncoderLogin) -> None:
    with transaction.atomic():
        encoderlogin.revoke(login=login)
        audit.record(actor, "encoder_login.revoke", audit.name_of(login), stream=login.stream)
