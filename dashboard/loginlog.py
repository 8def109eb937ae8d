"""Failed log-ins in the audit log: as many as tell what goes on, however many there are."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from dashboard.throttle import WAIT_S
from ingest import clean
from ingest.models import AuditEntry
from ingest.services import audit
from ingest.services.audit import Actor

FAILED = "login.fail"

OF_ADDRESS = 10
"""Entries within the log-in's wait, of one address,"""
OF_ALL = 200
"""and of all, whoever has many addresses."""

LAST = "More of this address within {minutes} min are not written down."
UNKNOWN = "somebody"


def failed(username: str, address: str) -> None:
    """A name that is no user's isn't written down: people type passwords into that field."""
    recent = AuditEntry.objects.filter(action=FAILED, at__gt=timezone.now() - timedelta(seconds=WAIT_S))
    of_address = recent.filter(address=clean.text(address, 64)).count()
    if of_address >= OF_ADDRESS or recent.count() >= OF_ALL:
        return
    user = User.objects.filter(username=username).first() if clean.fits(username) else None
    name = user.get_username() if user is not None else UNKNOWN
    note = LAST.format(minutes=WAIT_S // 60) if of_address == OF_ADDRESS - 1 else ""
    audit.record(Actor(name, user, address), FAILED, name if user is not None else "an unknown user", note=note)
