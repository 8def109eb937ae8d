"""Log-ins in the audit log: of failed ones as many as tell what goes on, however many there are; and from where
somebody got in.
"""

from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from dashboard.devices import KNOWN
from dashboard.throttle import ACCOUNT, WAIT_S
from ingest import clean
from ingest.addresses import unit_or_itself
from ingest.models import AuditEntry
from ingest.services import audit
from ingest.services.audit import Actor

IN = "login"
FAILED = "login.fail"
LIMITED = "login.limit"

OF_ADDRESS = 10
"""Entries within the log-in's wait, of one address,"""
OF_ALL = 200
"""and of all, whoever has many addresses."""

MOST_LOGINS = 1000
"""Of an account, that are looked through for an address."""

LAST = "More of this address within {minutes} min are not written down."
UNKNOWN = "somebody"


def failed(username: str, address: str) -> None:
    """A name that is no user's isn't written down: people type passwords into that field."""
    recent = AuditEntry.objects.filter(action=FAILED, at__gt=timezone.now() - timedelta(seconds=WAIT_S))
    of_address = recent.filter(address=clean.text(address, 64)).count()
    if of_address >= OF_ADDRESS or recent.count() >= OF_ALL:
        return
    user = _user(username)
    name = user.get_username() if user is not None else UNKNOWN
    note = LAST.format(minutes=WAIT_S // 60) if of_address == OF_ADDRESS - 1 else ""
    audit.record(Actor(name, user, address), FAILED, name if user is not None else "an unknown user", note=note)


def limited(username: str) -> None:
    """That an account has reached its limit: once an hour."""
    user = _user(username)
    since = timezone.now() - timedelta(seconds=ACCOUNT.wait_s)
    if user is None or AuditEntry.objects.filter(action=LIMITED, user=user, at__gt=since).exists():
        return
    note = f"After {ACCOUNT.failures} failures from many addresses only known browsers and addresses may try."
    audit.record(Actor(user.get_username(), user), LIMITED, user.get_username(), note=note)


def is_known(username: str, address: str) -> bool:
    """Whether somebody logged in to the account from the address lately; of IPv6 from its /64."""
    user = _user(username)
    if user is None:
        return False
    entries = AuditEntry.objects.filter(action=IN, user=user, at__gt=timezone.now() - KNOWN).order_by("-at")
    known = set(entries.values_list("address", flat=True)[:MOST_LOGINS])
    return unit_or_itself(address) in {unit_or_itself(each) for each in known}


def _user(username: str) -> User | None:
    return User.objects.filter(username=username).first() if clean.fits(username) else None
