"""The audit log as page, export and API read it."""

from typing import Any

from django.db.models import Q, QuerySet

from dashboard.lists import narrow
from ingest.models import AuditEntry

LOOKUPS = {
    "actor": "actor",
    "action": "action",
    "address": "address",
    "app": "stream__application__name",
    "name": "stream__name",
    "since": "at__gte",
    "until": "at__lt",
}

FIELDS = ("at", "actor", "address", "action", "target", "stream", "session_id", "detail")
"""Of an entry, as it is exported and as the API has it."""


def rows(values: dict[str, Any], *, text: str = "") -> QuerySet[AuditEntry]:
    """Newest first. `text`: words that who, what or to what has, all of them; `subject`: the part before the dot."""
    found = narrow(AuditEntry.objects.select_related("stream__application").order_by("-at", "-pk"), LOOKUPS, values)
    for word in text.split():
        found = found.filter(Q(target__icontains=word) | Q(actor__icontains=word) | Q(action__icontains=word))
    return found


def as_dict(entry: AuditEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in FIELDS} | {
        "stream": entry.stream.path if entry.stream else None,
        "session_id": str(entry.session_id) if entry.session_id else None,
    }


def known(field: str) -> list[str]:
    """What entries have in it, in order; 200 at most."""
    return list(AuditEntry.objects.order_by(field).values_list(field, flat=True).distinct()[:200])
