"""manage.py report."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from analytics.models import Dimension, Report
from analytics.reports import builder
from analytics.reports.document import Document
from ingest.models import Application, AuditEntry, Session, Stream
from tests.analytics.reports.rows import H_MS, HOUR, MONDAY, done, hour, rollup
from tests.receivers import mail_receiver

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    out = StringIO()
    call_command("report", *words, stdout=out, stderr=StringIO())
    return out.getvalue().replace("\xa0", " ")


@pytest.fixture
def week() -> None:
    for number in range(7):
        hour("live/a", MONDAY + number * 24 * HOUR)
        done(MONDAY + number * 24 * HOUR)


def test_a_report_is_made_printed_and_kept(week: None) -> None:
    said = run("make", "weekly", "--from", "2026-11-05")
    report = Report.objects.get()
    assert said.splitlines() == [
        f"Weekly stream report, 2 to 8 November 2026: report {report.pk}.",
        "A steady week: no stream had trouble. The stream was up 100 % of its time.",
        "- Nothing went wrong.",
    ]
    assert AuditEntry.objects.get().action == "report.make"
    assert " ".join(run("list").split()) == f"{report.pk} weekly, 2 to 8 November 2026 (UTC)"
    (item,) = json.loads(run("list", "--json"))["items"]
    assert (item["id"], item["kind"], item["hours"]) == (report.pk, "weekly", "7 of 7")


@pytest.mark.django_db(transaction=True)
def test_nobody_waits_for_the_database_while_one_is_made(week: None, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    make = builder.build_document

    def look(*args: Any, **kwargs: Any) -> Document:
        held.append(connection.in_atomic_block)
        return make(*args, **kwargs)

    monkeypatch.setattr(builder, "build_document", look)
    run("make", "weekly", "--from", "2026-11-05")
    assert held == [False]


@pytest.mark.parametrize(
    ("words", "period"),
    [
        (("daily", "--from", "2026-11-03"), ("2026-11-03T00:00:00+00:00", "2026-11-04T00:00:00+00:00")),
        (
            ("daily", "--from", "2026-11-03", "--time-zone", "Europe/Berlin"),
            ("2026-11-02T23:00:00+00:00", "2026-11-03T23:00:00+00:00"),
        ),
        (
            ("daily", "--from", "2026-11-03T10:00", "--to", "2026-11-03T12:30"),
            ("2026-11-03T10:00:00+00:00", "2026-11-03T12:30:00+00:00"),
        ),
        (("monthly", "--from", "2026-11-30"), ("2026-11-01T00:00:00+00:00", "2026-12-01T00:00:00+00:00")),
        (
            ("weekly", "--from", "2026-11-02", "--to", "2026-11-16", "--app", "live"),
            ("2026-11-02T00:00:00+00:00", "2026-11-16T00:00:00+00:00"),
        ),
    ],
)
def test_periods(words: tuple[str, ...], period: tuple[str, str], week: None) -> None:
    made = json.loads(run("make", *words, "--json"))
    assert (made["period"]["since"], made["period"]["until"]) == period


@pytest.mark.parametrize(
    ("ending", "begins"), [("html", "<!doctype"), ("pdf", "%PDF"), ("csv", "since"), ("json", "{")]
)
def test_files(ending: str, begins: str, week: None, tmp_path: Path) -> None:
    file = tmp_path / f"report.{ending}"
    run("make", "weekly", "--from", "2026-11-02", "--output", str(file))
    assert file.read_bytes().startswith(begins.encode())
    if ending == "html":
        assert 'src="data:image/png;base64,' in file.read_text()


def test_it_is_sent(week: None, settings: Any) -> None:
    with mail_receiver() as inbox:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", inbox.port
        settings.EMAIL_URL = f"smtp://127.0.0.1:{inbox.port}"
        run("make", "weekly", "--from", "2026-11-02", "--send", "a@example.org", "--send", "b@example.org")
        assert sorted(message["To"] for message in inbox.got) == ["a@example.org", "b@example.org"]
    settings.EMAIL_URL = ""
    with pytest.raises(CommandError, match="RTMPWEB_EMAIL_URL"):
        run("make", "weekly", "--from", "2026-11-02", "--send", "a@example.org")


def test_a_broadcast(week: None) -> None:
    begin = datetime(2026, 11, 7, 20, tzinfo=UTC)
    common = {"kind": "publish", "app": "live", "name": "a", "address": "192.0.2.1"}
    Session.objects.create(started_at=begin, ended_at=begin + timedelta(minutes=50), **common)
    with pytest.raises(CommandError, match="analytics run"):
        run("make", "broadcast", "--stream", "live/a", "--from", "2026-11-07")
    rollup(
        "live/a",
        begin,
        kbps=[1.0],
        dimension=Dimension.BROADCAST,
        value="2026-11-07T20:00:01Z",
        live_ms=H_MS // 2,
        elapsed_ms=H_MS // 2,
    )
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
def test_what_can_not_be_made_is_said(words: tuple[str, ...], problem: str) -> None:
    Stream.objects.create(application=Application.objects.create(name="live"), name="quiet")
    with pytest.raises(CommandError, match=problem):
        run("make", *words)
    assert Report.objects.count() == 0
