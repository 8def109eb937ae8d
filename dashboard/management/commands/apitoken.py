"""`manage.py apitoken create NAME --role ROLE [--expires WHEN] [--json]`, `list [--json]`, `revoke NAME [--json]`."""

import argparse
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from dashboard import access
from dashboard.models import ApiToken
from ingest.management import base
from ingest.management.base import Answer, Argument, Verb, VerbCommand
from ingest.services import audit, installation
from ingest.services.roles import ROLES


def moment(text: str) -> datetime:
    """An ISO 8601 date or time; UTC where it names no zone; a date means its beginning."""
    try:
        at = parse_datetime(text) if parse_date(text[:10]) else None
    except ValueError:
        at = None
    if at is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no ISO 8601 time, such as 2030-01-31T12:00Z")
    return at if at.tzinfo else at.replace(tzinfo=timezone.get_default_timezone())


class Command(VerbCommand):
    help = "Makes, lists and revokes API tokens."
    errors = (access.NameTaken, installation.StartError)

    @Verb(
        "make a token; its secret is printed once",
        Argument("name"),
        Argument("--role", required=True, choices=list(ROLES)),
        Argument("--expires", type=moment, metavar="TIME", help="ISO 8601, such as 2030-01-31T12:00Z"),
    )
    def _create(self, name: str, role: str, expires: datetime | None) -> Answer:
        if not 1 <= len(name) <= 128 or not name.isprintable():
            raise CommandError("A name has 1 to 128 printable characters.")
        installation.confirm_pepper()
        with transaction.atomic():
            made = access.create_token(name=name, role=role, expires_at=expires)
            audit.record(self.actor, "api_token.create", name, role=role)
        return Answer(
            {"name": name, "role": role, "token": made.secret}, [f"Token {name} ({role}), shown once:", made.secret]
        )

    @Verb("list all tokens, newest first")
    def _list(self) -> Answer:
        return self.listing(ApiToken.objects.all())

    @Verb("make a token useless at once", Argument("name"))
    def _revoke(self, name: str) -> Answer:
        token = ApiToken.objects.filter(name=name, revoked_at__isnull=True).first()
        if token is None:
            raise CommandError(f"No token that is valid has the name {name!r}.")
        with transaction.atomic():
            access.revoke_token(token=token)
            audit.record(self.actor, "api_token.revoke", name)
        return Answer(base.values(token, "name", "revoked_at"), [f"Revoked {name}."])

    def row(self, token: ApiToken) -> dict[str, Any]:
        return base.values(token, "name", "role", "prefix", "created_at", "expires_at", "last_used_at", "revoked_at")

    def line(self, row: dict[str, Any]) -> str:
        state = f"revoked {row['revoked_at']}" if row["revoked_at"] else f"expires {row['expires_at'] or 'never'}"
        return f"{row['prefix']}…  {row['name']}  {row['role']}  {state}"
