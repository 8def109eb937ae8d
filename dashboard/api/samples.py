"""What was measured of a stream in the last hours, from the lake."""

import time
from dataclasses import asdict

from django.conf import settings
from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from dashboard.api.auth import allow
from dashboard.api.schemas import Problem
from dashboard.streams import stream_row
from ingest.contracts import Health
from ingest.roles import Ability

router = Router(tags=["streams"])

MOST_S = 24 * 3600
POINTS = 600
BUDGET_S = 4.0
"""How long a page waits for its charts; what was not read by then is named among the problems."""

Column = list[float | None]


class SampleRange(Schema):
    seconds: int = Field(1800, ge=60, le=MOST_S, description="Up to now.")
    points: int = Field(POINTS, ge=10, le=2000, description="More samples are gathered into so many spans.")


class SamplesOut(Schema):
    """Columns of one length, in the order of time."""

    at: list[float] = Field(description="Seconds since the epoch.")
    step_s: float = Field(description="A span's length; 0 where nothing is gathered: one sample is about a second.")
    values: dict[str, Column] = Field(description="A gauge's mean, a counter's sum.")
    low: dict[str, Column] = Field(description="A gauge's least value of a span.")
    high: dict[str, Column] = Field(description="Its greatest.")
    health: list[Health] = Field(description="The worst of a span.")
    gaps: list[tuple[float, float]] = Field(description="Times (from, to) without media.")
    problems: list[str] = Field(description="What could not be read, in sentences.")


@router.get(
    "/streams/{app}/{stream:name}/samples",
    response={200: SamplesOut, 404: Problem},
    auth=allow(Ability.VIEW),
    url_name="stream-samples",
)
def samples(request: HttpRequest, app: str, name: str, wanted: Query[SampleRange]) -> SamplesOut:
    """The samples of all sessions that published the stream lately."""
    from ingest.telemetry import reading  # Arrow is loaded where samples are read.

    until_us = int(time.time() * 1_000_000)
    series = reading.read_stream(
        settings.LAKE_DIR,
        stream_row(app, name).pk,
        until_us - wanted.seconds * 1_000_000,
        until_us,
        points=wanted.points,
        budget_s=BUDGET_S,
    )
    return SamplesOut.model_validate(asdict(series))
