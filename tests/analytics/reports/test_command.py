"""`manage.py report`, and reports made by a process of its own: one at a time, and what is said when one fails."""

import io
import json
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone
from pypdf import PdfReader

from analytics import periods
from analytics.completeness import Completeness
from analytics.management.commands import report as report_command
from analytics.models import Dimension, Report, ReportDelivery, ReportPlan
from analytics.reports import builder, subprocess_jobs
from analytics.reports.document import Document
from analytics.scopes import Scope
from ingest.models import Application, AuditEntry, Session, Stream
from ingest.services.audit import Actor
from tests.analytics.rollups import HOUR, HOUR_MS, MONDAY, make_live_hour, mark_done, save_rollup
from tests.receivers import MailReceiver

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_lake")]


def run(*words: str) -> str:
    out = StringIO()
    call_command("report", *words, stdout=out, stderr=StringIO())
    return out.getvalue().replace("\xa0", " ")


@pytest.fixture
def week() -> None:
    for number in range(7):
        make_live_hour("live/a", MONDAY + number * 24 * HOUR)
        mark_done(MONDAY + number * 24 * HOUR)


def test_a_report_is_made_printed_and_kept(week: None) -> None:
    said = run("make", "weekly", "--from", "2026-11-05")
    report = Report.objects.get()
    assert said.splitlines() == [
        f"Weekly stream report, 2 to 8 November 2026: report {report.pk}.",
        "A steady week: no stream had trouble. Uptime 100 %.",
        "- Nothing went wrong.",
    ]
    assert AuditEntry.objects.get().action == "report.make"
    assert " ".join(run("list").split()) == f"{report.pk} weekly, 2 to 8 November 2026 (UTC)"
    (item,) = json.loads(run("list", "--json"))["items"]
    assert (item["id"], item["kind"], item["hours"]) == (report.pk, "weekly", "7 of 7")


@pytest.mark.django_db(transaction=True)
def test_report_is_built_outside_any_transaction(week: None, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    make = builder.build_document

    def look(*args: Any, **kwargs: Any) -> Document:
        held.append(connection.in_atomic_block)
        return make(*args, **kwargs)

    monkeypatch.setattr(builder, "build_document", look)
    run("make", "weekly", "--from", "2026-11-05")
    assert held == [False]


@pytest.mark.parametrize(
    ("words", "since", "until"),
    [
        ("daily --from 2026-11-03", "2026-11-03T00:00", "2026-11-04T00:00"),
        ("daily --from 2026-11-03 --time-zone Europe/Berlin", "2026-11-02T23:00", "2026-11-03T23:00"),
        ("daily --from 2026-11-03T10:00 --to 2026-11-03T12:30", "2026-11-03T10:00", "2026-11-03T12:30"),
        ("monthly --from 2026-11-30", "2026-11-01T00:00", "2026-12-01T00:00"),
        ("weekly --from 2026-11-02 --to 2026-11-16 --app live", "2026-11-02T00:00", "2026-11-16T00:00"),
    ],
)
def test_report_make_options_set_the_period(words: str, since: str, until: str, week: None) -> None:
    period = json.loads(run("make", *words.split(), "--json"))["period"]
    assert (period["since"], period["until"]) == (f"{since}:00+00:00", f"{until}:00+00:00")


@pytest.mark.parametrize(
    ("ending", "begins"), [("html", "<!doctype"), ("pdf", "%PDF"), ("csv", "since"), ("json", "{")]
)
def test_report_make_writes_each_file_format(ending: str, begins: str, week: None, tmp_path: Path) -> None:
    file = tmp_path / f"report.{ending}"
    run("make", "weekly", "--from", "2026-11-02", "--output", str(file))
    assert file.read_bytes().startswith(begins.encode())
    if ending == "html":
        assert 'src="data:image/png;base64,' in file.read_text()


def test_report_make_sends_to_addresses_only_if_email_is_configured(
    week: None, inbox: MailReceiver, settings: Any
) -> None:
    run("make", "weekly", "--from", "2026-11-02", "--send", "a@example.org", "--send", "b@example.org")
    assert sorted(message["To"] for message in inbox.got) == ["a@example.org", "b@example.org"]
    settings.EMAIL_URL = ""
    with pytest.raises(CommandError, match="RTMPWEB_EMAIL_URL"):
        run("make", "weekly", "--from", "2026-11-02", "--send", "a@example.org")


def test_report_command_waits_for_a_mail_that_the_worker_is_sending(
    week: None, inbox: MailReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worker_takes(channel: str) -> int:
        return ReportDelivery.objects.update(claim=uuid4(), claimed_until=timezone.now() + timedelta(seconds=60))

    def worker_sends(seconds: float) -> None:
        ReportDelivery.objects.update(claim=None, claimed_until=None, state=ReportDelivery.State.DONE)

    monkeypatch.setattr(report_command, "deliver", worker_takes)
    monkeypatch.setattr(report_command, "sleep", worker_sends)
    run("make", "weekly", "--from", "2026-11-02", "--send", "a@example.org")
    assert not ReportDelivery.objects.exclude(state=ReportDelivery.State.DONE).exists()


def test_report_make_of_a_broadcast_needs_its_computed_figures(week: None) -> None:
    begin = datetime(2026, 11, 7, 20, tzinfo=UTC)
    common = {"kind": "publish", "app": "live", "name": "a", "address": "192.0.2.1"}
    Session.objects.create(started_at=begin, ended_at=begin + timedelta(minutes=50), **common)
    with pytest.raises(CommandError, match="analytics run"):
        run("make", "broadcast", "--stream", "live/a", "--from", "2026-11-07")
    half: dict[str, Any] = dict.fromkeys(("live_ms", "elapsed_ms"), HOUR_MS // 2)
    save_rollup("live/a", begin, kbps=[1.0], dimension=Dimension.BROADCAST, value="2026-11-07T20:00:01Z", **half)
    made = json.loads(run("make", "broadcast", "--stream", "live/a", "--from", "2026-11-07", "--json"))
    assert made["period"]["words"] == "7 November 2026, 20:00 to 20:50"
    assert made["figures"]["live_h"] == 0.5


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("daily", "--from", "yesterday"), "is no date"),
        (("daily", "--to", "2026-11-02"), "give --from"),
        (("daily", "--from", "2026-11-03", "--to", "2026-11-02"), "after it begins"),
        (("daily", "--time-zone", "Mars/Olympus"), "no time zone"),
        (("daily", "--output", "report.doc"), "end it in"),
        (("daily", "--send", "nobody"), "no e-mail address"),
        (("broadcast",), "give --stream"),
        (("broadcast", "--stream", "live/none"), "no application or stream live/none"),
        (("daily", "--app", "none"), "no application or stream none"),
        (("broadcast", "--stream", "live/quiet"), "No broadcast"),
    ],
)
def test_report_make_refuses_invalid_arguments_with_the_reason(words: tuple[str, ...], problem: str) -> None:
    Stream.objects.create(application=Application.objects.create(name="live"), name="quiet")
    with pytest.raises(CommandError, match=problem):
        run("make", *words)
    assert Report.objects.count() == 0


PERIOD = periods.containing(ReportPlan.Kind.WEEKLY, date(2026, 11, 2), periods.zone_of("Europe/Berlin"))


@pytest.fixture
def seen_by_others(settings: Any, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process finds the test's database and lake."""
    if connection.vendor != "sqlite":
        pytest.skip("It is about the other process, not the database.")
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{connection.settings_dict['NAME']}")
    monkeypatch.setenv("RTMPWEB_LAKE", str(lake))


@pytest.mark.matrix
@pytest.mark.django_db(transaction=True)
def test_report_made_by_another_process_is_attributed_to_its_requester(seen_by_others: None) -> None:
    user = User.objects.create_user("ana")
    make_live_hour("live/a", MONDAY)
    make_live_hour("live/b", MONDAY)
    mark_done(MONDAY)
    made = Report.objects.get(pk=subprocess_jobs.report(PERIOD, Scope("live", "a"), Actor("ana", user, "192.0.2.7")))
    assert (made.kind, made.since, made.until, made.scope) == ("weekly", PERIOD.since, PERIOD.until, "live/a")
    assert (made.made_by, made.time_zone, made.hours_done) == (user, "Europe/Berlin", 1)
    assert str(made) == "weekly 2026-11-02 live/a", "by the day of its own clock"
    assert [row["stream"] for row in made.document["streams"]] == ["live/a"]
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.user, entry.address) == ("report.make", "ana", user, "192.0.2.7")
    assert entry.detail == {"report": made.pk}


@pytest.mark.matrix
@pytest.mark.django_db(transaction=True)
def test_failed_report_process_gives_a_reason_and_does_not_block_the_next(
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
def test_report_job_waits_only_a_limited_time_for_a_running_one(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Completeness(0, 0, [])
    document = builder.build_document(PERIOD, Scope(), former=None, completeness=nothing, now=MONDAY, lake=lake)
    monkeypatch.setattr(subprocess_jobs, "WAIT_S", 0.05)
    with subprocess_jobs._one_at_a_time, pytest.raises(subprocess_jobs.NotMade, match="is being made"):
        subprocess_jobs.pdf(document)
    assert len(PdfReader(io.BytesIO(subprocess_jobs.pdf(document))).pages) == 1
