"""`manage.py apitoken create NAME --role ROLE [--expires WHEN] [--json]`, `list [--json]`, `revoke NAME [--json]`."""

import argparse
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from dashboard import access
from dashboard.models import ApiToken
from ingest.management.base import iso, put_json
from ingest.services import audit, installation
from ingest.services.roles import ROLES


def moment(text: str) -> datetime:
    """An ISO 8601 date or time; UTC where it names no zone; a date means its beginning."""
    try:
        found = parse_datetime(text) if parse_date(text[:10]) else None
    except ValueError:
        found = None
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no ISO 8601 time, such as 2030-01-31T12:00Z")
    return found if found.tzinfo else found.replace(tzinfo=timezone.get_default_timezone())


TIMES = ("created_at", "expires_at", "last_used_at", "revoked_at")


class Command(BaseCommand):
    help = "Makes, lists and revokes API tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="make a token; its secret is printed once")
        create.add_argument("name")
        create.add_argument("--role", required=True, choices=list(ROLES))
        create.add_argument("--expires", type=moment, metavar="TIME", help="ISO 8601, such as 2030-01-31T12:00Z")
        listing = actions.add_parser("list", help="list all tokens, newest first")
        revoke = actions.add_parser("revoke", help="make a token useless at once")
        revoke.add_argument("name")
        for parser in (create, listing, revoke):
            parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        {"create": self.create, "list": self.list, "revoke": self.revoke}[options["action"]](options)

    def create(self, options: dict[str, Any]) -> None:
        name = options["name"]
        if not 1 <= len(name) <= 128 or not name.isprintable():
            raise CommandError("A name has 1 to 128 printable characters.")
        try:
            installation.confirm_pepper()
            with transaction.atomic():
                made = access.create_token(name=name, role=options["role"], expires_at=options["expires"])
                audit.record(audit.command("apitoken"), "api_token.create", name, role=made.token.role)
        except (access.NameTaken, installation.StartError) as error:
            raise CommandError(str(error)) from None
        if options["as_json"]:
            put_json(self.stdout, {"name": name, "role": made.token.role, "token": made.secret})
        else:
            self.stdout.write(f"Token {name} ({made.token.role}), shown once:\n{made.secret}")

    def list(self, options: dict[str, Any]) -> None:
        rows = [
            {
                "name": token.name,
                "role": token.role,
                "prefix": token.prefix,
                **{name: iso(getattr(token, name)) for name in TIMES},
            }
            for token in ApiToken.objects.all()
        ]
        if options["as_json"]:
            put_json(self.stdout, {"items": rows, "count": len(rows)})
            return
        for row in rows:
            state = f"revoked {row['revoked_at']}" if row["revoked_at"] else f"expires {row['expires_at'] or 'never'}"
            self.stdout.write(f"{row['prefix']}…  {row['name']}  {row['role']}  {state}")

    def revoke(self, options: dict[str, Any]) -> None:
        token = ApiToken.objects.filter(name=options["name"], revoked_at__isnull=True).first()
        if token is None:
            raise CommandError(f"No token that is valid has the name {options['name']!r}.")
        with transaction.atomic():
            access.revoke_token(token=token)
            audit.record(audit.command("apitoken"), "api_token.revoke", token.name)
        if options["as_json"]:
            put_json(self.stdout, {"name": token.name, "revoked_at": iso(token.revoked_at)})
        else:
            self.stdout.write(f"Revoked {token.name}.")
