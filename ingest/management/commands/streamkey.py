"""`manage.py streamkey`: keys for those who work in a terminal, and for scripts."""

import sys
from collections.abc import Sized
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import transaction
from django.db.models import QuerySet

from ingest import command_line
from ingest.credentials import looks_like_key
from ingest.management import base
from ingest.management.base import Answer, Argument, Verb, VerbCommand
from ingest.models import StreamKey
from ingest.services import actions as services_actions
from ingest.services import audit, installation, key_import, keys, media_urls

KEY = Argument(
    "key", help="A key's id, the key itself ('-': read from standard input), or APP/NAME for the stream's active keys."
)


class Command(VerbCommand):
    help = (
        "Creates, imports, lists, rotates and revokes stream keys. A key is printed once, when it is made; only a "
        "fingerprint of it is kept. A revoked key's session ends within 2 s, on whichever node it is."
    )
    errors = (keys.KeyTaken, key_import.Unusable, installation.StartError)

    @Verb(
        "make a key; the stream is made if it isn't there",
        Argument("stream", metavar="APP/NAME"),
        Argument("--label", default="", help="what the key is for"),
        Argument("--expires", metavar="TIME", help="such as 2030-01-31, 2030-01-31T12:00Z or 30d"),
        Argument("--max-kbps", type=int, metavar="N", help="bitrate limit, kbit/s"),
        Argument(
            "--over-limit", choices=StreamKey.OverLimit.values, help="what happens over the limit (default: warn)"
        ),
        Argument(
            "--allow", action="append", default=[], metavar="CIDR", help="network it may be used from; may be repeated"
        ),
        Argument(
            "--secret",
            metavar="VALUE",
            help="an existing key, imported from another server; '-' reads it from standard input, since a "
            "command line is visible to other users of the machine",
        ),
        Argument(
            "--test-only", action="store_true", help="what is published with it is checked, and not shown to players"
        ),
    )
    def _create(
        self,
        stream: str,
        expires: str | None,
        max_kbps: int | None,
        over_limit: str | None,
        allow: list[str],
        secret: str | None,
        **rights: Any,
    ) -> Answer:
        installation.confirm_pepper()
        if max_kbps is not None and max_kbps <= 0:
            raise CommandError("--max-kbps takes a number above 0.")
        if over_limit and max_kbps is None:
            raise CommandError("--over-limit needs --max-kbps.")
        new_key = services_actions.create_key(
            self.actor,
            stream=base.stream_of(stream, make=self.actor),
            expires_at=base.moment(expires) if expires else None,
            max_kbps=max_kbps,
            over_limit=over_limit or StreamKey.OverLimit.WARN,
            allowed_networks=allow,
            secret=sys.stdin.readline().strip() if secret == "-" else secret,  # noqa: S105 - it stands for one.
            **rights,
        )
        return _shown(new_key)

    @Verb(
        "import existing keys from a table: all of them, or none",
        Argument(
            "file",
            metavar="FILE.csv",
            help=f"'-': standard input. Its first line names the columns: {','.join(key_import.COLUMNS)}, of which the "
            "first two are needed; several networks are separated by blanks",
        ),
        Argument("--dry-run", action="store_true", help="only check the table"),
    )
    def _import(self, file: str, dry_run: bool) -> Answer:
        installation.confirm_pepper()
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
        except OSError as error:
            raise CommandError(f"{file} can't be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise CommandError("The table is not in UTF-8. Save it as CSV in UTF-8.") from None
        rows = key_import.read(text.splitlines(), _moment)
        with transaction.atomic():
            streams_made = key_import.bring_over(rows, dry_run=dry_run)
            if not dry_run:
                audit.record(self.actor, "key.import", f"{len(rows)} keys", streams_made=streams_made)
        imported, makes = ("Would import", "make") if dry_run else ("Imported", "made")
        return Answer(
            {"keys": len(rows), "streams_made": streams_made, "dry_run": dry_run},
            [f"{imported} {_count(rows, 'key')} and {makes} {_count(streams_made, 'stream')} for them."],
        )

    @Verb("list keys, never their secrets", Argument("stream", metavar="APP/NAME", nargs="?"))
    def _list(self, stream: str | None) -> Answer:
        rows = StreamKey.objects.select_related("stream__application")
        if stream is not None:
            rows = rows.filter(stream=base.stream_of(stream))
        empty = f"There are no keys. Make one with: {command_line.here('streamkey create APP/NAME')}"
        return self.listing(rows, empty=empty)

    @Verb(
        "make a new key with the same rights in place of one",
        KEY,
        Argument(
            "--grace", default="0", metavar="TIME", help="how long the old one keeps working, such as 24h; 90d at most"
        ),
    )
    def _rotate(self, key: str, grace: str) -> Answer:
        installation.confirm_pepper()
        matches = list(_find(key))
        if len(matches) > 1:  # Those that were rotated already work on for their grace only.
            matches = [each for each in matches if each.revoked_at is None]
        if len(matches) != 1:
            see = command_line.here("streamkey list")
            raise CommandError(f"The stream has several active keys: give a key's id ({see}).")
        return _shown(services_actions.rotate_key(self.actor, matches[0], grace=base.duration(grace)))

    @Verb("end keys, and the sessions that use them", KEY)
    def _revoke(self, key: str) -> Answer:
        found = list(_find(key))
        for each in found:
            services_actions.revoke_key(self.actor, each)
        revoked = [each.pk for each in found]
        return Answer({"revoked": revoked}, [f"Revoked {len(found)}. Their sessions end within 2 s."])

    def row(self, key: StreamKey) -> dict[str, Any]:
        return {
            "id": key.pk,
            "stream": key.stream.path,
            **base.values(key, "label", "prefix"),
            "state": keys.state(key=key),
            **base.values(key, "expires_at", "grace_until", "max_kbps", "over_limit", "test_only", "allowed_networks"),
            **base.values(key, "created_at", "last_used_at"),
        }

    def line(self, row: dict[str, Any]) -> str:
        parts = [str(row["id"]), row["stream"], row["state"], f"{row['prefix']}…", row["label"]]
        if row["max_kbps"]:
            parts.append(f"{row['max_kbps']} kbit/s, {row['over_limit']}")
        return "  ".join(parts)


def _shown(made: keys.NewKey) -> Answer:
    strings = media_urls.strings(stream=made.key.stream, secret=made.secret)
    lines = [
        f"Stream:      {strings.stream}",
        f"Server:      {strings.server}",
        *([f"With TLS:    {strings.rtmps_server}"] if strings.rtmps_server else []),
        f"Stream key:  {strings.key}",
        f"Publish to:  {strings.publish_url}",
        f"Play from:   {strings.play_url}",
        "Copy the key now. It is shown once; only a fingerprint of it is kept.",
    ]
    return Answer(strings.as_dict(), lines)


def _find(which: str) -> QuerySet[StreamKey]:
    """The key by id or secret; else the stream's keys that work."""
    rows = StreamKey.objects.select_related("stream__application")
    if which == "-":
        which = sys.stdin.readline().strip()
    if which.isdigit():
        matches = rows.filter(pk=int(which))
    elif looks_like_key(which) or "/" not in which:
        matches = rows.filter(digest=keys.digest(which))
    else:
        stream = base.stream_of(which)
        active = [key.pk for key in rows.filter(stream=stream) if keys.state(key=key) == "active"]
        matches = rows.filter(pk__in=active)
    if not matches.exists():
        raise CommandError("There is no such key, or none that works.")
    return matches


def _count(things: Sized, what: str) -> str:
    return f"{len(things)} {what}{'' if len(things) == 1 else 's'}"


def _moment(text: str) -> datetime:
    try:
        return base.moment(text)
    except CommandError as error:
        raise ValidationError(str(error)) from None
