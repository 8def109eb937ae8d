"""Whose rollups a report is made from: all streams', an application's, one stream's, or one broadcast's."""

from dataclasses import dataclass
from typing import Self

from analytics.models import Dimension, Grain, Rollup
from analytics.periods import Period
from analytics.rollups import Rollups
from ingest.models import Application, Stream


class NoSuchScope(ValueError):  # noqa: N818 - an answer to who asked.
    """There is no such application or stream; the text says what may be given."""


@dataclass(frozen=True, slots=True)
class Scope:
    """`value`: a broadcast's, as its rollups have it; empty otherwise."""

    app: str = ""
    name: str = ""
    value: str = ""

    @classmethod
    def of(cls, text: str) -> Self:
        """From `Report.scope`: "" all streams, an application's name, or app/name."""
        app, _, name = text.partition("/")
        return cls(app, name)

    @classmethod
    def asked(cls, text: str) -> Self:
        """From what somebody typed: one that there is, or whose history outlived it. Raises NoSuchScope."""
        scope = cls.of(text.strip().strip("/"))
        app, name = scope.app, scope.name
        if not scope.text:
            return scope
        if name:
            is_known = Stream.objects.filter(application__name=app, name=name).exists()
        else:
            is_known = Application.objects.filter(name=app).exists()
        dimension = Dimension.STREAM if name else Dimension.APP
        history = Rollup.objects.filter(dimension=dimension, grain__in=Grain.values, app=app, name=name)
        if not is_known and not history.exists():
            raise NoSuchScope(f"There is no application or stream {scope.text[:80]}. Empty: all streams.")
        return scope

    @property
    def text(self) -> str:
        """As `Report.scope` has it."""
        return f"{self.app}/{self.name}" if self.name else self.app

    @property
    def words(self) -> str:
        if self.name:
            return self.text
        return f"All streams of {self.app}" if self.app else "All streams"

    def streams(self, period: Period) -> Rollups:
        return self._hours(period, Dimension.BROADCAST if self.value else Dimension.STREAM)

    def together(self, period: Period) -> Rollups:
        """The hours of all its streams together: one row an hour, of several applications one each."""
        return self.streams(period) if self.name else self._hours(period, Dimension.APP)

    def nodes(self, period: Period) -> Rollups:
        """The hours of each node: what happened at all."""
        return Rollups(Dimension.NODE, Grain.HOUR, period.first_hour, period.end_hour)

    def _hours(self, period: Period, dimension: Dimension) -> Rollups:
        return Rollups(
            dimension,
            Grain.HOUR,
            period.first_hour,
            period.end_hour,
            app=self.app or None,
            name=self.name or None,
            values=[self.value] if self.value else None,
        )
