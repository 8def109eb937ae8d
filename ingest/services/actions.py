"""What people do, wherever they ask for it: each action with its entry of the audit log, in one transaction, without a
secret.

What is changed in a form of the admin has its entry from `ingest.admin_site`."""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from ingest.models import Application, Ban, EncoderLogin, Node, Recording, Session, Stream, StreamKey
from ingest.services import (
    audit,
    authorization,
    bans,
    database,
    encoder_login,
    keys,
    media_urls,
    nodes,
    play_policy,
    recording_import,
    recordings,
    sessions,
    test_links,
)
from ingest.services.audit import Actor, audited
from ingest.services.keys import NewKey


def kick(actor: Actor, session: Session, *, note: str = "") -> bool:
    """Asks for the end of a session. False: it has ended already."""
    note = note.rstrip(" .")
    sentence = f"Ended by {actor.name}: {note}." if note else f"Ended by {actor.name}."
    with transaction.atomic():
        if not sessions.request_stop(session_id=session.pk, reason="kicked", by=actor.user, note=sentence):
            return False
        target = f"{session.app}/{session.name}"
        detail = {"note": note, "kind": session.kind}
        audit.record(actor, "session.kick", target, stream=session.stream, session=session, **detail)
    return True


def make_stream(actor: Actor, application: Application, name: str) -> Stream:
    """The stream of the name, made if it isn't there. The name has been validated. Raises ValidationError for one of an
    instance too many."""
    with transaction.atomic():
        authorization.check_instance_room(application=application, made=[name])
        stream, made = Stream.objects.get_or_create(application=application, name=name)
        if made:
            audit.record(actor, "stream.create", stream.path, stream=stream)
    return stream


def save_application(actor: Actor, application: Application, **fields: Any) -> None:
    """A new one, or one that is changed, with these fields. Raises ValidationError."""
    verb = "create" if application.pk is None else "change"
    former = application.play_policy
    for name, value in fields.items():
        setattr(application, name, value)
    application.full_clean()
    with transaction.atomic():
        application.save()
        play_policy.apply_of_application(application, former)
        audit.record(actor, f"application.{verb}", application.name, **fields)


def set_enabled(actor: Actor, row: Stream | Application, enabled: bool) -> None:
    """What is disabled, or is in a disabled application, is refused to all, and ends within 2 s."""
    if row.enabled == enabled:
        return
    stream = row if isinstance(row, Stream) else None
    subject, verb = "stream" if stream else "application", "enable" if enabled else "disable"
    with audited(actor, f"{subject}.{verb}", str(row), stream=stream):
        row.enabled = enabled
        row.save(update_fields=["enabled"])


def play_link(
    actor: Actor, *, stream: Stream, lifetime: timedelta, page: str = "", site: str = ""
) -> media_urls.PlayLink:
    """A token that plays the stream, and the URLs with it. The entry says until when, never the token."""
    link = media_urls.make_play_link(stream, lifetime, page=page, site=site)
    audit.record(actor, "play_token.create", stream.path, stream=stream, expires_at=link.expires_at)
    return link


# --- Recordings ---


def recording_link(
    actor: Actor, *, recording: Recording, lifetime: timedelta, page: str = "", site: str = ""
) -> media_urls.RecordingLink:
    """A token that plays the recording, and the URLs with it. The entry says until when, never the token."""
    link = media_urls.make_recording_link(recording, lifetime, page=page, site=site)
    _record_recording(actor, "recording_token.create", recording, expires_at=link.expires_at)
    return link


def delete_recording(actor: Actor, recording: Recording, *, note: str = "") -> None:
    """With its file. Raises RecordingProblem, also for a file that can't be deleted."""
    name, file, stream = recording_name(recording), recording.file, recording.stream
    try:
        with audited(actor, "recording.delete", name, stream=stream, file=file, note=note):
            recordings.delete(recording)
    except OSError as error:
        raise recordings.RecordingProblem(f"Its file can't be deleted: {error.strerror}.") from None


def keep_recording(actor: Actor, recording: Recording, keep: bool) -> None:
    with transaction.atomic():
        recording.keep = keep
        recording.save(update_fields=["keep"])
        _record_recording(actor, "recording.keep" if keep else "recording.unkeep", recording)


def import_recording(actor: Actor, *, stream: Stream, name: str, source: Path) -> Recording:
    """What is raised: as of `recording_import.add`."""
    recording = recording_import.add(stream=stream, name=name, source=source)
    _record_recording(actor, "recording.import", recording)
    return recording


def recording_name(recording: Recording) -> str:
    return f"{recording.application.name}/{recording.name}"


def _record_recording(actor: Actor, action: str, recording: Recording, **detail: Any) -> None:
    audit.record(actor, action, recording_name(recording), stream=recording.stream, file=recording.file, **detail)


# --- Nodes ---


def drain_node(actor: Actor, name: str, *, grace_s: int) -> Node:
    """Raises NodeError, as all of a node do."""
    with audited(actor, "node.drain", name, grace_s=grace_s):
        return nodes.request_drain(name=name, grace_s=grace_s, now=database.read_shared_clock())


def resume_node(actor: Actor, name: str) -> Node:
    with audited(actor, "node.resume", name):
        return nodes.cancel_drain(name=name)


def forget_node(actor: Actor, name: str) -> Node:
    with audited(actor, "node.forget", name):
        return nodes.forget(name=name)


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


def make_login(actor: Actor, *, stream: Stream, user: str, **rights: Any) -> encoder_login.NewPassword:
    """`rights` and what is raised: as of `encoder_login.create`."""
    with transaction.atomic():
        made = encoder_login.create(stream=stream, user=user, **rights)
        audit.record(actor, "encoder_login.create", made.login)
    return made


def set_login_password(actor: Actor, login: EncoderLogin, *, password: str = "") -> encoder_login.NewPassword:
    """Raises ValidationError."""
    with audited(actor, "encoder_login.password", login):
        return encoder_login.set_password(login=login, password=password)


def revoke_login(actor: Actor, login: EncoderLogin) -> None:
    with audited(actor, "encoder_login.revoke", login):
        encoder_login.revoke(login=login)


def create_key(actor: Actor, *, stream: Stream, secret: str | None = None, **rights: Any) -> NewKey:
    """`rights`: as of `keys.create`, which says what is raised."""
    with transaction.atomic():
        made = keys.create(stream=stream, secret=secret, **rights)
        audit.record(actor, "key.create", made.key, **_given(rights | {"imported": secret is not None}))
    return made


def rotate_key(actor: Actor, key: StreamKey, *, grace: timedelta = timedelta(0)) -> NewKey:
    """Raises ValidationError as `keys.rotate`."""
    with transaction.atomic():
        made = keys.rotate(key=key, grace=grace)
        audit.record(actor, "key.rotate", key, grace_s=int(grace.total_seconds()), successor=audit.name_of(made.key))
    return made


def revoke_key(actor: Actor, key: StreamKey) -> None:
    """The key's sessions end within 2 s."""
    with audited(actor, "test_link.revoke" if key.link_of_id else "key.revoke", key):
        keys.revoke(key=key)


def make_test_link(actor: Actor, key: StreamKey, *, lifetime: timedelta) -> NewKey:
    """What is raised: as of `test_links.make`."""
    with transaction.atomic():
        made = test_links.make(key=key, lifetime=lifetime)
        audit.record(actor, "test_link.create", key, expires_at=made.key.expires_at)
    return made


def enable_key(actor: Actor, key: StreamKey, enabled: bool) -> None:
    """A disabled key publishes nothing, and what it publishes ends; it can be enabled again. So are its test links
    disabled, each of which is enabled by itself."""
    with audited(actor, "key.enable" if enabled else "key.disable", key):
        key.enabled = enabled
        key.save(update_fields=["enabled"])
        keys.bind_links(key=key)


def change_key(actor: Actor, key: StreamKey, **rights: Any) -> None:
    """Changes what of the rights is given and differs. Raises ValidationError."""
    changed = {name: [getattr(key, name), value] for name, value in rights.items() if getattr(key, name) != value}
    if not changed:
        return
    for name, value in rights.items():
        setattr(key, name, value)
    key.full_clean(exclude=["stream", "digest"])
    with audited(actor, "key.change", key, changed=changed):
        key.save(update_fields=list(changed))
        keys.bind_links(key=key)


def _given(rights: dict[str, Any]) -> dict[str, Any]:
    """Without what is as it would be anyway."""
    given = {name: value for name, value in rights.items() if value not in (None, "", [], (), False)}
    if "max_kbps" not in given:
        given.pop("over_limit", None)
    return given
