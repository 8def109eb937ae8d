"""/system: the installation's parts, and since when each is as it is."""

from datetime import datetime

from django.http import HttpRequest
from ninja import Field, Router, Schema

from dashboard.system.parts import WORDS, State
from dashboard.system.watch import get_watch

router = Router(tags=["system"])


class PartOut(Schema):
    """A part of the installation."""

    kind: str = Field(description=f"One of {', '.join(WORDS)}.")
    title: str
    state: State
    since: datetime | None = Field(description="When it took this state, as far as that is known.")
    what: str = Field(description="What is wrong; empty while it is in order.")
    effect: str = Field(description="What goes on meanwhile, and what stops.")
    advice: str = Field(description="What to do.")
    detail: str = Field(description="Names and figures.")
    alarm: bool = Field(description="Whether pages warn of it while it is not in order.")


class SystemOut(Schema):
    at: datetime
    state: State = Field(description="The worst of the parts that pages warn of.")
    items: list[PartOut]
    count: int


@router.get("/system", response=SystemOut)
def system(request: HttpRequest) -> SystemOut:
    """Every part, in order or not. While the database is away the answer is 503, with the parts that are down."""
    report = get_watch().report()
    items = [PartOut(**part.full()) for part in report.parts]
    return SystemOut(at=report.at, state=report.worst, items=items, count=len(items))
