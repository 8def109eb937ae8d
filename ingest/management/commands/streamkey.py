"""`manage.py streamkey`: keys for those who work in a terminal, and for scripts."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet

from ingest.management import arguments
from ingest.models import StreamKey
from ingest.server.credentials import looks_like_key
from ingest.services import keys, paste

WHICH = "A key's id, the key itself ('-': read from standard input), or APP/NAME for the stream's active keys."


class Command(BaseCommand):
    help = (
        "Creates, lists, rotates and revokes stream keys. A key is printed once, when it is made; only a fingerprint "
        "of it is kept. A revoked key's session ends within 2 s, on whichever node it is."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True, metavar="create|list|rotate|revoke")
        create = acts.add_parser("create", help="make a key; the stream is made if it isn't there")
        create.add_argument("stream", metavar="APP/NAME")
        create.add_argument("--label", default="", help="what the key is for")
        create.add_argument("--expires", metavar="TIME", help="such as 2030-01-31, 2030-01-31T12:00Z or 30d")
        create.add_argument("--max-kbps", type=int, metavar="N", help="the most that may be published, kbit/s")
        create.add_argument("--allow", action="append", default=[], metavar="CIDR", help="may be given several times")
        create.add_argument(
            "--secret",
            metavar="VALUE",
            help="an existing key, brought over from another server; '-' reads it from standard input, since a "
            "command line is visible to other users of the machine",
        )
        listing = acts.add_parser("list", help="list keys, never their secrets")
        listing.add_argument("stream", metavar="APP/NAME", nargs="?")
        rotate = acts.add_parser("rotate", help="make a new key with the same rights in place of one")
        rotate.add_argument("key", help=WHICH)
        rotate.add_argument("--grace", default="0", metavar="TIME", help="how long the old one works on, such as 24h")
        revoke = acts.add_parser("revoke", help="end keys, and the sessions that use them")
        revoke.add_argument("key", help=WHICH)
        for act in (create, listing, rotate, revoke):
            act.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        acts: dict[str, Callable[..., None]] = {
            "create": self._create,
            "list": self._list,
            "rotate": self._rotate,
            "revoke": self._revoke,
        }
        try:
            acts[options["act"]](**options)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        except keys.KeyTaken as error:
            raise CommandError(str(error)) from None

    def _create(self, *, stream: str, label: str, max_kbps: int | None, json: bool, **options: Any) -> None:
        given: str | None = options["secret"]
        if max_kbps is not None and max_kbps <= 0:
            raise CommandError("--max-kbps takes a number above 0.")
        made = keys.create(
            stream=arguments.stream_of(stream, make=True),
            label=label,
            expires_at=arguments.moment(options["expires"]) if options["expires"] else None,
            max_kbps=max_kbps,
            allowed_networks=options["allow"],
            secret=sys.stdin.readline().strip() if given == "-" else given,
        )
        self._show(made, json)

    def _show(self, made: keys.NewKey, json: bool) -> None:
        strings = paste.strings(stream=made.key.stream, secret=made.secret)
        if json:
            arguments.put_json(self.stdout, strings.as_dict())
            return
        self.stdout.write(f"Stream:      {strings.stream}")
        self.stdout.write(f"Server:      {strings.server}")
        self.stdout.write(f"Stream key:  {strings.key}")
        self.stdout.write(f"Publish to:  {strings.publish_url}")
        self.stdout.write(f"Play from:   {strings.play_url}")
        self.stdout.write("Copy the key now. It is shown once; only a fingerprint of it is kept.")

    def _list(self, *, stream: str | None, json: bool, **options: Any) -> None:
        rows = StreamKey.objects.select_related("stream__application")
        if stream is not None:
            rows = rows.filter(stream=arguments.stream_of(stream))
        items = [_row(key) for key in rows]
        if json:
            arguments.put_json(self.stdout, {"items": items, "count": len(items)})
            return
        for item in items:
            parts = (str(item["id"]), item["stream"], item["state"], f"{item['prefix']}…", item["label"])
            self.stdout.write("  ".join(parts))
        if not items:
            self.stdout.write("There are no keys. Make one with: manage.py streamkey create APP/NAME")

    def _rotate(self, *, key: str, grace: str, json: bool, **options: Any) -> None:
        found = list(self._find(key)[:2])
        if len(found) != 1:
            raise CommandError("The stream has several active keys: give a key's id (manage.py streamkey list).")
        self._show(keys.rotate(key=found[0], grace=arguments.duration(grace)), json)

    def _revoke(self, *, key: str, json: bool, **options: Any) -> None:
        found = list(self._find(key))
        for each in found:
            keys.revoke(key=each)
        if json:
            arguments.put_json(self.stdout, {"revoked": [each.pk for each in found]})
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
            stream = arguments.stream_of(which)
            active = [key.pk for key in rows.filter(stream=stream) if keys.state(key=key) == "active"]
            found = rows.filter(pk__in=active)
        if not found.exists():
            raise CommandError("There is no such key, or none that works.")
        return found


def _row(key: StreamKey) -> dict[str, Any]:
    return {
        "id": key.pk,
        "stream": key.stream.path,
        "label": key.label,
        "prefix": key.prefix,
        "state": keys.state(key=key),
        "expires_at": arguments.iso(key.expires_at),
        "grace_until": arguments.iso(key.grace_until),
        "max_kbps": key.max_kbps,
        "allowed_networks": key.allowed_networks,
        "created_at": arguments.iso(key.created_at),
        "last_used_at": arguments.iso(key.last_used_at),
    }
