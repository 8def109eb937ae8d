"""Kinds of messages: how the mail of each looks, and what the engine has to know of it.

Whoever has messages sent says so in a module `mails` of an installed application:

    @mail_of("alert")
    def alert_mail(row: Delivery) -> MailContent: ...
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from django.db.models import Q
from django.utils.module_loading import autodiscover_modules

from ingest.models import Delivery


@dataclass(frozen=True, slots=True)
class MailContent:
    """What each recipient gets. `brief`: what a chat or pager shows below the subject; `level`: how bad it is there,
    bad, warning, over, or ended without being fixed. `pictures`: PNG, by the content ids that the HTML names. `files`:
    name, text, type.
    """

    subject: str
    text: str
    html: str
    brief: str = ""
    level: str = ""
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    files: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """`name`: the whole kind, or what stands before its full stop: "alert" is alert.opened and alert.cleared.

    `at_most_once`: given up where a worker was lost over it, not sent again; its rows are how one knows who has got it,
    and go with what they are about. `comes_last`: after all others that are due by the same channel. `mail` goes by a
    row's `kind`, `about` and `body`, by how that stands now, and is made once for several rows in which these are the
    same. `superseded`: why one that waits is of no use to a person any more; "": it is.
    """

    name: str
    mail: Callable[[Delivery], MailContent] | None = None
    at_most_once: bool = False
    comes_last: bool = False
    superseded: Callable[[Delivery], str] | None = None


_registered: dict[str, Kind] = {}


def mail_of(
    name: str,
    *,
    at_most_once: bool = False,
    comes_last: bool = False,
    superseded: Callable[[Delivery], str] | None = None,
) -> Callable[[Callable[[Delivery], MailContent]], Callable[[Delivery], MailContent]]:
    def register(mail: Callable[[Delivery], MailContent]) -> Callable[[Delivery], MailContent]:
        _registered[name] = Kind(name, mail, at_most_once, comes_last, superseded)
        return mail

    return register


@cache
def _discover() -> None:
    """Once something is sent: what makes mails is not loaded before."""
    autodiscover_modules("mails")


def kind_of(row: Delivery) -> Kind:
    """Of one that nobody has registered: it has no mail, and is as webhooks' are."""
    _discover()
    return _registered.get(row.kind.partition(".")[0], Kind(row.kind))


def rows_that(asked: Callable[[Kind], bool]) -> Q:
    """Rows of the kinds for which it is true; of no other."""
    _discover()
    found = Q(pk__in=())
    for kind in _registered.values():
        if asked(kind):
            found |= Q(kind=kind.name) | Q(kind__startswith=f"{kind.name}.")
    return found
