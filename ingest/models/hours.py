"""Hours of days by the clocks of a time zone, and by them the times at which streams should be live.

On the day that clocks go forward, a time that they skip comes as much later as they skip; on the day that they go back,
one that comes twice is the first."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Max, Q

from ingest.models.access import Stream
from ingest.models.activity import Session

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

DAY = timedelta(days=1)

Day = date
"""Within a model that has a field of that name."""

WEEK = 7


def validate_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValidationError(f"{name!r} is no time zone: expected one such as Europe/Berlin or UTC.") from None


class Hours(models.Model):
    """From a time of day until another, on some days of the week; over midnight, if the second is not later.

    Hours from 22:00 until 6:00 belong to the day on which they begin. Without times: whole days.
    """

    days = models.JSONField(default=list, blank=True, help_text="0 is Monday. Empty: every day.")
    from_time = models.TimeField("from", null=True, blank=True)
    until_time = models.TimeField("until", null=True, blank=True)
    time_zone = models.CharField(max_length=64, default="UTC", validators=[validate_zone])

    class Meta:
        abstract = True

    def begins_on(self, day: Day) -> bool:
        return not self.days or day.weekday() in self.days

    def span(self, day: date) -> tuple[datetime, datetime]:
        """Begin and end, in UTC, of the hours that begin on the day."""
        zone = self._zone()
        begin, end = self.from_time or time(), self.until_time or time()
        last = day if begin < end else day + DAY
        return datetime.combine(day, begin, zone).astimezone(UTC), datetime.combine(last, end, zone).astimezone(UTC)

    def current(self, now: datetime) -> tuple[datetime, datetime] | None:
        """Begin and end of the hours that `now` is in; None: it is outside of them."""
        today = now.astimezone(self._zone()).date()
        for day in (today, today - DAY):
            if self.begins_on(day):
                begin, end = self.span(day)
                if begin <= now < end:
                    return begin, end
        return None

    def began(self, now: datetime) -> datetime | None:
        """When the hours began that `now` is in; None: it is outside of them."""
        found = self.current(now)
        return found[0] if found else None

    def _zone(self) -> tzinfo:
        """UTC, if this machine doesn't know the zone: other hours are better than none."""
        try:
            return ZoneInfo(self.time_zone)
        except (KeyError, ValueError, OSError):
            return UTC


@dataclass(frozen=True, slots=True)
class Missing:
    """A stream that is off air though it should be live."""

    since: datetime
    """Since it should be live or, if it was live within its time, since it went off air."""
    until: datetime
    was_live: bool


class ExpectedTime(Hours):
    """A time at which a stream should be live: each week, or once on a date."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="expected_times")
    date = models.DateField("only on", null=True, blank=True, help_text="A single date. Empty: each week.")
    from_time = models.TimeField("from")
    until_time = models.TimeField("until")
    grace_s = models.PositiveIntegerField(
        "grace (s)",
        default=120,
        validators=[MaxValueValidator(86_400)],
        help_text="How long it may be off air before that counts.",
    )

    class Meta:
        ordering = ["stream", "date", "from_time", "pk"]

    def __str__(self) -> str:
        return self.words

    def begins_on(self, day: Day) -> bool:
        return day == self.date if self.date else super().begins_on(day)

    @property
    def words(self) -> str:
        """Such as "Sundays 10:00-11:30 Europe/Berlin"."""
        if self.date:
            day = f"{self.date:%-d %b %Y}"
        elif not self.days or len(set(self.days)) == WEEK:
            day = "Daily"
        elif len(self.days) == 1:
            day = f"{DAYS[self.days[0]]}s"
        else:
            day = ", ".join(DAYS[each][:3] for each in sorted(self.days))
        return f"{day} {self.from_time:%H:%M}-{self.until_time:%H:%M} {self.time_zone}"

    def next_begin(self, now: datetime) -> datetime | None:
        """When it begins next; None: never again."""
        today = now.astimezone(self._zone()).date()
        days = [self.date] if self.date else [today + number * DAY for number in range(WEEK + 1)]
        begins = (self.span(day)[0] for day in days if self.begins_on(day))
        return next((begin for begin in begins if begin > now), None)


def expected_streams(now: datetime) -> tuple[set[int], dict[int, Missing]]:
    """Ids of streams that have expected times, and of them those that are missing now. Three queries, for all."""
    enabled = Q(stream__enabled=True, stream__application__enabled=True)
    timed: set[int] = set()
    due: dict[int, tuple[datetime, datetime, timedelta]] = {}
    for row in ExpectedTime.objects.filter(enabled).order_by("pk"):
        timed.add(row.stream_id)
        if (span := row.current(now)) is not None:
            grace = timedelta(seconds=row.grace_s)
            known = due.get(row.stream_id)
            # Times that overlap are one: it has to be live from the first's begin to the last's end.
            begin, end = (min(known[0], span[0]), max(known[1], span[1])) if known else span
            due[row.stream_id] = (begin, end, min(known[2], grace) if known else grace)
    return timed, dict(_missing(due, now)) if due else {}


def _missing(due: dict[int, tuple[datetime, datetime, timedelta]], now: datetime) -> Iterator[tuple[int, Missing]]:
    published = Session.objects.filter(kind=Session.Kind.PUBLISH, is_test=False, stream__in=due)
    on_air = set(published.filter(ended_at__isnull=True).values_list("stream", flat=True))
    ended = _last_ends(published, due.keys() - on_air, min(begin for begin, _, _ in due.values()))
    for stream, (begin, end, grace) in due.items():
        if stream in on_air:
            continue
        last = ended.get(stream)
        was_live = last is not None and last > begin
        since = last if was_live and last is not None else begin
        if since + grace <= now and not (was_live and end - since <= grace):  # So little earlier is no loss.
            yield stream, Missing(since, end, was_live)


def _last_ends(published: "models.QuerySet[Session]", streams: Collection[int], since: datetime) -> dict[int, datetime]:
    rows = published.filter(stream__in=streams, ended_at__gt=since).order_by().values("stream")
    return {row["stream"]: row["last"] for row in rows.annotate(last=Max("ended_at"))}
