"""`manage.py streamkey`: keys for those who work in a terminal, and for scripts."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.db.models import QuerySet

from ingest.credentials import looks_like_key
from ingest.management import base
from ingest.models import StreamKey
from ingest.services import actions as services_actions
from ingest.services import audit, installation, key_import, keys, media_urls

MAKES_SECRETS = ("create", "import", "rotate")

WHICH = "A key's id, the key itself ('-': read from standard input), or APP/NAME for the stream's active keys."


class Command(BaseCommand):
    help = (
        "Creates, imports, lists, rotates and revokes stream keys. A key is printed once, when it is made; only a "
        "fingerprint of it is kept. A revoked key's session ends within 2 s, on whichever node it is."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True, metavar="create|import|list|rotate|revoke")
        create = acts.add_parser("create", help="make a key; the stream is made if it isn't there")
        create.add_argument("stream", metavar="APP/NAME")
        create.add_argument("--label", default="", help="what the key is for")
        create.add_argument("--expires", metavar="TIME", help="such as 2030-01-31, 2030-01-31T12:00Z or 30d")
        create.add_argument("--max-kbps", type=int, metavar="N", help="the most that may be published, kbit/s")
        create.add_argument(
            "--over-limit", choices=StreamKey.OverLimit.values, help="what follows a higher bitrate (default: warn)"
        )
        create.add_argument("--allow", action="append", default=[], metavar="CIDR", help="may be given several times")
        create.add_argument(
            "--secret",
            metavar="VALUE",
            help="an existing key, brought over from another server; '-' reads it from standard input, since a "
            "command line is visible to other users of the machine",
        )
        create.add_argument(
            "--test-only", action="store_true", help="what is published with it is judged, but no player gets it"
        )
        bulk = acts.add_parser("import", help="bring over existing keys from a table: all of them, or none")
        bulk.add_argument(
            "file",
            metavar="FILE.csv",
            help=f"'-': standard input. Its first line names the columns: {','.join(key_import.COLUMNS)}, of which the "
            "first two are needed; several networks are separated by blanks",
        )
        bulk.add_argument("--dry-run", action="store_true", help="only check the table")
        listing = acts.add_parser("list", help="list keys, never their secrets")
        listing.add_argument("stream", metavar="APP/NAME", nargs="?")
        rotate = acts.add_parser("rotate", help="make a new key with the same rights in place of one")
        rotate.add_argument("key", help=WHICH)
        rotate.add_argument(
            "--grace", default="0", metavar="TIME", help="how long the old one works on, such as 24h; 90d at most"
        )
        revoke = acts.add_parser("revoke", help="end keys, and the sessions that use them")
        revoke.add_argument("key", help=WHICH)
        for act in (create, bulk, listing, rotate, revoke):
            act.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        acts: dict[str, Callable[..., None]] = {
            "create": self._create,
            "import": self._import,
            "list": self._list,
            "rotate": self._rotate,
            "revoke": self._revoke,
        }
        try:
            if options["act"] in MAKES_SECRETS:
                installation.confirm_pepper()
            acts[options["act"]](**options)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        except (keys.KeyTaken, key_import.Unusable, installation.StartError) as error:
            raise CommandError(str(error)) from None

    def _create(self, *, stream: str, label: str, max_kbps: int | None, json: bool, **options: Any) -> None:
        given: str | None = options["secret"]
        if max_kbps is not None and max_kbps <= 0:
            raise CommandError("--max-kbps takes a number above 0.")
        over_limit = options["over_limit"]
        if over_limit and max_kbps is None:
            raise CommandError("--over-limit needs --max-kbps.")
        actor = audit.command("streamkey")
        made = services_actions.create_key(
            actor,
            stream=base.stream_of(stream, make=actor),
            label=label,
            expires_at=base.moment(options["expires"]) if options["expires"] else None,
            max_kbps=max_kbps,
            over_limit=over_limit or StreamKey.OverLimit.WARN,
            allowed_networks=options["allow"],
            test_only=options["test_only"],
            secret=sys.stdin.readline().strip() if given == "-" else given,
        )
        self._show(made, json)

    def _show(self, made: keys.NewKey, json: bool) -> None:
        strings = media_urls.strings(stream=made.key.stream, secret=made.secret)
        if json:
            base.put_json(self.stdout, strings.as_dict())
            return
        self.stdout.write(f"Stream:      {strings.stream}")
        self.stdout.write(f"Server:      {strings.server}")
        if strings.rtmps_server:
            self.stdout.write(f"With TLS:    {strings.rtmps_server}")
        self.stdout.write(f"Stream key:  {strings.key}")
        self.stdout.write(f"Publish to:  {strings.publish_url}")
        self.stdout.write(f"Play from:   {strings.play_url}")
        self.stdout.write("Copy the key now. It is shown once; only a fingerprint of it is kept.")

    def _import(self, *, file: str, dry_run: bool, json: bool, **options: Any) -> None:
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
        except OSError as error:
            raise CommandError(f"{file} can't be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise CommandError("The table is not in UTF-8. Save it as CSV in UTF-8.") from None
        rows = key_import.read(text.splitlines(), _moment)
        with transaction.atomic():
            found = key_import.bring_over(rows, dry_run=dry_run)
            if not dry_run:
                actor, what = audit.command("streamkey"), f"{found.keys} keys"
                audit.record(actor, "key.import", what, streams_made=found.streams_made)
        if json:
            result = {"keys": found.keys, "streams_made": found.streams_made, "dry_run": dry_run}
            base.put_json(self.stdout, result)
            return
        imported, makes = ("Would import", "make") if dry_run else ("Imported", "made")
        self.stdout.write(f"{imported} {found.keys} keys and {makes} {len(found.streams_made)} streams for them.")

    def _list(self, *, stream: str | None, json: bool, **options: Any) -> None:
        rows = StreamKey.objects.select_related("stream__application")
        if stream is not None:
            rows = rows.filter(stream=base.stream_of(stream))
        items = [_row(key) for key in rows]
        if json:
            base.put_json(self.stdout, {"items": items, "count": len(items)})
            return
        for item in items:
            parts = [str(item["id"]), item["stream"], item["state"], f"{item['prefix']}…", item["label"]]
            if item["max_kbps"]:
                parts.append(f"{item['max_kbps']} kbit/s, {item['over_limit']}")
            self.stdout.write("  ".join(parts))
        if not items:
            self.stdout.write("There are no keys. Make one with: manage.py streamkey create APP/NAME")

    def _rotate(self, *, key: str, grace: str, json: bool, **options: Any) -> None:
        found = list(self._find(key))
        if len(found) > 1:  # Those that were rotated already work on for their grace only.
            found = [each for each in found if each.revoked_at is None]
        if len(found) != 1:
            raise CommandError("The stream has several active keys: give a key's id (manage.py streamkey list).")
        self._show(services_actions.rotate_key(audit.command("streamkey"), found[0], grace=base.duration(grace)), json)

    def _revoke(self, *, key: str, json: bool, **options: Any) -> None:
        found = list(self._find(key))
        for each in found:
            services_actions.revoke_key(audit.command("streamkey"), each)
        if json:
            base.put_json(self.stdout, {"revoked": [each.pk for each in found]})
        else:
            self.stdout.write(f"Revoked {len(found)}. Their sessions end within 2 s.")

    def _find(self, which: str) -> "QuerySet[StreamKey]":
        """The key by id or secret; else the stream's keys that work."""
        rows = StreamKey.objects.select_related("stream__application")
        if which == "-":
            which = sys.stdin.readline().strip()
        if which.isdigit():
            found = rows.filter(pk=int(which))
        elif looks_like_key(which) or "/" not in which:
            found = rows.filter(digest=keys.digest(which))
        else:
            stream = base.stream_of(which)
            active = [key.pk for key in rows.filter(stream=stream) if keys.state(key=key) == "active"]
            found = rows.filter(pk__in=active)
        if not found.exists():
            raise CommandError("There is no such key, or none that works.")
        return found


def _moment(text: str) -> datetime:
    try:
        return base.moment(text)
    except CommandError as error:
        raise ValidationError(str(error)) from None


def _row(key: StreamKey) -> dict[str, Any]:
    return {
        "id": key.pk,
        "stream": key.stream.path,
        "label": key.label,
        "prefix": key.prefix,
        "state": keys.state(key=key),
        "expires_at": base.iso(key.expires_at),
        "grace_until": base.iso(key.grace_until),
        "max_kbps": key.max_kbps,
        "over_limit": key.over_limit,
        "test_only": key.test_only,
        "allowed_networks": key.allowed_networks,
        "created_at": base.iso(key.created_at),
        "last_used_at": base.iso(key.last_used_at),
    }
