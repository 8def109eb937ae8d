"""The time zone of the pages: the one that an account chose, else its browser's, else UTC; and times that people type
in it.

While a page is made it is Django's current zone, in which templates write times and forms read them. All else stays in
UTC: the API, metrics, the admin, and what files, mails, logs and the database hold.

Where clocks go back, one text stands for two moments, and none has parts of a second. So an input whose text would not
be read as the moment that it shows has that beside it: who sends the text back as it was means that very moment."""

import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache, lru_cache
from typing import Any, Literal, cast
from zoneinfo import ZoneInfo, available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.db import Error as DatabaseError
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString

from analytics import periods
from dashboard.middleware import Middleware
from dashboard.models import Preferences

CHOSEN = "zone"
BROWSERS = "browser_zone"
"""Cookies: what was chosen in this browser the last time, for pages of nobody (the log-in's, and those of an outage);
the browser's own, set by each page's script.
"""

UTC_PATHS = ("/api/", "/admin/", "/metrics", "/healthz", "/watch/", "/poster/")

NAME = re.compile(r"[A-Za-z0-9_+/-]{1,64}")


@dataclass(frozen=True, slots=True)
class Zone:
    zone: ZoneInfo
    by: Literal["choice", "browser", "nobody"]
    """Who named it."""
    shows_utc: bool = False
    """Whether each time has UTC beside it, where it would else be seen by pointing at it alone."""

    @property
    def name(self) -> str:
        return self.zone.key

    @property
    def offset(self) -> str:
        """Now: "UTC+1", "UTC-3:30"; "UTC" where it is none."""
        minutes = round((timezone.now().astimezone(self.zone).utcoffset() or timedelta()).total_seconds() / 60)
        hours, rest = divmod(abs(minutes), 60)
        return f"UTC{'-' if minutes < 0 else '+'}{hours}{f':{rest:02}' if rest else ''}" if minutes else "UTC"

    @property
    def words(self) -> str:
        """ "Europe/Berlin, now UTC+1"."""
        return self.name if self.name == self.offset else f"{self.name}, now {self.offset}"


UTC_ZONE = ZoneInfo("UTC")


@lru_cache(maxsize=512)
def named(name: str) -> ZoneInfo | None:
    """None where there is none of the name."""
    if not NAME.fullmatch(name):
        return None
    try:
        return periods.zone_of(name)
    except periods.PeriodProblem:
        return None


@cache
def names() -> tuple[str, ...]:
    """To choose from; those of a place, and UTC."""
    places = (name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return ("UTC", *sorted(places))


def of(request: HttpRequest) -> Zone:
    """The zone of a request's page. What can't be understood is as if it were not there."""
    found = getattr(request, "_zone", None)
    return cast(Zone, found) if found is not None else _of(request, request.COOKIES.get(CHOSEN, ""))


def _of(request: HttpRequest, choice: str, *, shows_utc: bool = False) -> Zone:
    if chosen := named(choice):
        return Zone(chosen, "choice", shows_utc)
    if browsers := named(request.COOKIES.get(BROWSERS, "")):
        return Zone(browsers, "browser", shows_utc)
    return Zone(UTC_ZONE, "nobody", shows_utc)


class ZoneMiddleware(Middleware):
    """A page is made in its zone: that of the cookies, until it is known who asks; then that of the account."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        zone: tzinfo = UTC if _is_in_utc(request) else of(request).zone
        if self.is_async:
            return self._later(request, zone)
        with timezone.override(zone):
            response: HttpResponseBase = self.get_response(request)
        return response

    async def _later(self, request: HttpRequest, zone: tzinfo) -> HttpResponseBase:
        with timezone.override(zone):
            response: HttpResponseBase = await self.get_response(request)
        return response

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        """What it sets holds until `__call__` is done."""
        if _is_in_utc(request):
            return
        try:
            kept = _kept(request)
        except DatabaseError:
            return  # A view that needs it meets the same, and pages that don't are shown.
        if kept is None:
            return
        found = request._zone = _of(request, kept.zone, shows_utc=kept.shows_utc)  # type: ignore[attr-defined]
        timezone.activate(found.zone)


def _kept(request: HttpRequest) -> Preferences | None:
    """What the account of the request chose; None: nobody asks."""
    if not request.user.is_authenticated:
        return None
    return Preferences.objects.filter(pk=request.user.pk).first() or Preferences()


def _is_in_utc(request: HttpRequest) -> bool:
    return request.path_info.startswith(UTC_PATHS)


# --- What pages say ---


def clock(at: datetime, day: str = "", time: str = "%H:%M:%S", *, is_named: bool = True) -> str:
    """The time of day with UTC beside it: "14:31:46 (13:31:46 UTC)"; where the page is in UTC "13:31:46 UTC".

    `day`, `time`: their formats; without the former there is no day but that of UTC, if it is another one. `is_named`:
    whether a page in UTC names it here as well.
    """
    here, other = timezone.localtime(at), beside(at, time)
    before = f"{here:{day}}, " if day else ""
    return f"{before}{here:{time}}{f' ({other})' if other else ' UTC' if is_named else ''}"


def beside(at: datetime, time: str = "%H:%M:%S") -> str:
    """UTC: "13:31:46 UTC", after its day if that is another one; "" where the page's clocks show the same."""
    here, there = timezone.localtime(at), at.astimezone(UTC)
    if here.utcoffset() == timedelta():
        return ""
    other_day = f"{there:%-d %b}, " if here.date() != there.date() else ""
    return f"{other_day}{there:{time}} UTC"


def utc(at: datetime) -> str:
    """What stands beside a time that has no room for it: "23 Nov 2026, 13:31:46 UTC"."""
    return f"{at.astimezone(UTC):%-d %b %Y, %H:%M:%S} UTC"


# --- What forms are given ---


def current() -> ZoneInfo:
    return periods.zone_of(timezone.get_current_timezone_name())


def aware(at: datetime) -> datetime:
    """In UTC; what names no zone is meant in the current one. Raises OverflowError at the calendar's ends."""
    return (timezone.make_aware(at) if at.tzinfo is None else at).astimezone(UTC)


def begin(day: date) -> datetime:
    """When the day begins in the current zone, in UTC. Raises OverflowError at the calendar's ends."""
    return aware(datetime.combine(day, time.min))


def field(at: datetime | None) -> str:
    """As an input of type datetime-local takes it, in the current zone."""
    local = timezone.localtime(at) if at is not None else None
    return "" if local is None else f"{local:%Y-%m-%dT%H:%M:%S}" if local.second else f"{local:%Y-%m-%dT%H:%M}"


def days(first: str, last: str) -> tuple[datetime | None, datetime | None]:
    """From the beginning of the first day up to (not with) the end of the last. What is no day bounds nothing."""
    return _begin(first, 0), _begin(last, 1)


def _begin(text: str, days_later: int) -> datetime | None:
    try:
        day = parse_date(text)
        return begin(day + timedelta(days=days_later)) if day else None
    except (ValueError, OverflowError):
        return None


BESIDE = "{}_at"
"""The name of the hidden input beside one."""


def moment(text: str) -> datetime | None:
    """An ISO 8601 time, in UTC; None when it is none. One that names no zone is meant in the current one: the first of
    two where clocks go back; where they skip it, as far behind the change as it seems to be.
    """
    try:
        found = parse_datetime(text.strip())
        return aware(found) if found else None
    except (ValueError, OverflowError):
        return None


def instant(at: datetime) -> str:
    """For the address of a page, whatever its zone."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def at_moment(page: str, at: datetime) -> str:
    """The address of a stream's or a session's page, at a moment: it shows what was measured then."""
    return f"{page}?at={instant(at)}"


def given(values: Mapping[str, Any], name: str) -> str:
    """What an input of this name was sent with, as a text that `moment` reads as what the input showed."""
    at = _shown(values, name)
    return str(values.get(name) or "").strip() if at is None else at.isoformat()


def _shown(values: Mapping[str, Any], name: str) -> datetime | None:
    """The moment that stood beside the input, if its text is that moment's still."""
    at = moment(str(values.get(BESIDE.format(name)) or ""))
    return at if at is not None and field(at) == values.get(name) else None


class MomentInput(forms.DateTimeInput):
    """Of a moment, or of the text that somebody typed."""

    input_type = "datetime-local"
    supports_microseconds = True

    def format_value(self, value: Any) -> str:
        return field(value) if isinstance(value, datetime) else str(value or "")

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> SafeString:
        shown = super().render(name, value, attrs, renderer)
        if not isinstance(value, datetime) or moment(field(value)) == value:
            return shown
        at = value.astimezone(UTC).isoformat()
        return shown + format_html('<input type="hidden" name="{}" value="{}">', BESIDE.format(name), at)

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> Any:
        return _shown(data, name) or super().value_from_datadict(data, files, name)


class MomentField(forms.DateTimeField):
    """Its value is in UTC."""

    widget = MomentInput

    def prepare_value(self, value: Any) -> Any:
        return value

    def to_python(self, value: Any) -> datetime | None:
        if value in self.empty_values:
            return None
        at = value if isinstance(value, datetime) else moment(str(value))
        if at is None:
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return at
