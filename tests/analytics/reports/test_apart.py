"""Reports made by a process of its own: what it writes, one at a time, and what is said when it fails."""

import io
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from pypdf import PdfReader

from analytics import periods
from analytics.completeness import Completeness
from analytics.models import Report, ReportPlan
from analytics.reports import builder, subprocess_jobs
from analytics.scopes import Scope
from ingest.models import AuditEntry
from ingest.services.audit import Actor
from tests.analytics.reports.rows import MONDAY, done, hour

PERIOD = periods.containing(ReportPlan.Kind.WEEKLY, date(2026, 11, 2), periods.zone_of("Europe/Berlin"))


@pytest.fixture
def seen_by_others(settings: Any, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process finds the test's database and lake."""
    if connection.vendor != "sqlite":
        pytest.skip("It is about the other process, not the database.")
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{connection.settings_dict['NAME']}")
    monkeypatch.setenv("RTMPWEB_LAKE", str(lake))


@pytest.mark.django_db(transaction=True)
def test_another_process_makes_it_for_who_asked(seen_by_others: None) -> None:
    user = User.objects.create_user("ana")
    hour("live/a", MONDAY)
    hour("live/b", MONDAY)
    done(MONDAY)
    made = Report.objects.get(pk=subprocess_jobs.report(PERIOD, Scope("live", "a"), Actor("ana", user, "192.0.2.7")))
    assert (made.kind, made.since, made.until, made.scope) == ("weekly", PERIOD.since, PERIOD.until, "live/a")
    assert (made.made_by, made.time_zone, made.hours_done) == (user, "Europe/Berlin", 1)
    assert [row["stream"] for row in made.document["streams"]] == ["live/a"]
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.user, entry.address) == ("report.make", "ana", user, "192.0.2.7")
    assert entry.detail == {"report": made.pk}


@pytest.mark.slow("three processes, one after the other, that let all others go first")
@pytest.mark.django_db(transaction=True)
def test_what_fails_is_said_and_leaves_the_way_free(
    seen_by_others: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    actor = Actor("token ci")
    with monkeypatch.context() as broken:
        broken.setenv("DATABASE_URL", "sqlite:////nowhere/at/all.sqlite3")
        assert _refusal(actor) == subprocess_jobs.FAILED["report"]
        assert "A report was not made" in caplog.text
    with monkeypatch.context() as hurried:
        hurried.setitem(subprocess_jobs.LIMITS_S, "report", 0.01)
        assert _refusal(actor) == subprocess_jobs.TOO_LONG["report"]
    assert not Report.objects.exists()
    made = Report.objects.get(pk=subprocess_jobs.report(PERIOD, Scope(), actor))
    assert made.made_by is None


def _refusal(actor: Actor) -> str:
    with pytest.raises(subprocess_jobs.NotMade) as problem:
        subprocess_jobs.report(PERIOD, Scope(), actor)
    return str(problem.value)


@pytest.mark.django_db
def test_one_waits_for_another_and_not_for_ever(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Completeness(0, 0, [])
    document = builder.build_document(PERIOD, Scope(), former=None, completeness=nothing, now=MONDAY, lake=lake)
    monkeypatch.setattr(subprocess_jobs, "WAIT_S", 0.05)
    with subprocess_jobs._one_at_a_time, pytest.raises(subprocess_jobs.NotMade, match="is being made"):
        subprocess_jobs.pdf(document)
    assert len(PdfReader(io.BytesIO(subprocess_jobs.pdf(document))).pages) == 1
