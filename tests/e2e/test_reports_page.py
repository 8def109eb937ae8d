"""What a real encoder published, with a break: computed as a browser asks, shown, and made into a report, as page, on
paper, as e-mail, PDF and CSV. The figures are those of the same Parquet by DuckDB.
"""

import base64
import csv
import io
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import duckdb
import pypdf
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from analytics.reports.subprocess_jobs import LIMITS_S
from tests.browser import log_in, quiet, saved
from tests.e2e.test_secrets import holders
from tests.media import of_kind, read_packets
from tests.programs import Keys, key_url, publishing
from tests.receivers import MailReceiver, mail_receiver
from tests.server_process import ServerProcess, running
from tests.tools import require_tool

pytestmark = [
    pytest.mark.serve,
    pytest.mark.browser,
    pytest.mark.clients,
    pytest.mark.spark,
    pytest.mark.timeout(420),
]

STREAM = "live/reported"
OTHER = "live/rolled-up"
TO = "ops@example.org"

ASKED = "status of 422"
"""What a browser says of a form that is shown again with what was wrong."""

LIMITS_MS = {job: 1000 * limit for job, limit in LIMITS_S.items()}
"""How long the answer may take that waits for a process of its own: it gives way to all others (apart.NICE)."""

PIXELS = """async (source) => {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const seen = new Set(new Uint32Array(canvas.getImageData(0, 0, image.width, image.height).data.buffer));
  return [image.width, image.height, seen.size];
}"""
"""Width, height and number of colours of a picture."""


@pytest.fixture(scope="module")
def mails() -> Iterator[MailReceiver]:
    with mail_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, mails: MailReceiver) -> Iterator[ServerProcess]:
    require_tool("java")
    folder = tmp_path_factory.mktemp("reports") / "var"
    with running(folder, RTMPWEB_EMAIL_URL=f"smtp://127.0.0.1:{mails.port}") as started:
        yield started


@pytest.fixture(scope="module")
def keys(server: ServerProcess) -> Keys:
    return server.create_keys([STREAM, OTHER])


def publish(server: ServerProcess, keys: Keys, clip: Path, streams: Sequence[str]) -> None:
    """The whole clip to each at once; the last second of each is then among the samples."""
    encoders = [subprocess.Popen(publishing(clip, key_url(keys[path], server.rtmp, "name"))) for path in streams]
    assert [encoder.wait(60) for encoder in encoders] == [0] * len(streams)
    for path in streams:
        server.wait_for_state(path, "offline", timeout_s=20)


def samples(server: ServerProcess, stream: str, *expressions: str) -> tuple[Any, ...]:
    app, _, name = stream.partition("/")
    files = server.folder / "lake" / "samples" / "v=1" / "*" / "*" / "*.parquet"
    (row,) = duckdb.execute(
        f"select {', '.join(expressions)} from (select distinct on (session, sequence) * from "  # noqa: S608
        f"read_parquet('{files}', union_by_name = true) where app = '{app}' and name = '{name}')"
    ).fetchall()
    found: tuple[Any, ...] = row
    return found


@pytest.fixture(scope="module")
def page(browser: Browser, server: ServerProcess) -> Iterator[Page]:
    """Logged in."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    with quiet(context, but=ASKED) as opened:
        log_in(opened, server)
        yield opened


def link(page: Page, name: str) -> Locator:
    return page.get_by_role("link", name=name, exact=True)


def text_of(document: bytes) -> str:
    """Of a PDF."""
    return "".join(sheet.extract_text() for sheet in pypdf.PdfReader(io.BytesIO(document)).pages)


def body_of(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert isinstance(part, EmailMessage)
    text: str = part.get_content()
    return text


@pytest.mark.journey
@pytest.mark.slow("Spark starts and computes an hour")
def test_run_now_shows_progress_and_then_the_hours_rollup(
    page: Page, server: ServerProcess, keys: Keys, short_clip: Path
) -> None:
    page.goto(f"{server.http}/jobs/")
    expect(page.locator("#runs")).to_contain_text("No job has run yet")
    publish(server, keys, short_clip, [STREAM, OTHER])
    page.goto(f"{server.http}/analytics/")
    page.click("#run-now")
    expect(page.locator("#run[data-active]")).to_be_visible()
    expect(page.locator("#last-run")).to_be_visible(timeout=240_000)
    page.goto(f"{server.http}/analytics/?stream={OTHER}")
    expect(page.locator("h1")).to_have_text("rolled-up")
    expect(page.locator("#rollups")).to_be_visible()

    rollups = server.items(f"/api/v1/rollups?grain=hour&stream={OTHER}")
    columns = ("video_bytes", "audio_bytes", "video_frames", "audio_frames", "keyframes")
    sums = tuple(sum(rollup[column] for rollup in rollups) for column in columns)
    assert sums == samples(server, OTHER, *(f"sum({column})" for column in columns))
    assert list((server.folder / "lake" / "rollups").rglob("*.parquet"))
    assert [holders(server.folder, key["key"]) for key in keys.values()] == [[], []]
    sent = read_packets(str(short_clip))
    assert sum(rollup["video_frames"] for rollup in rollups) == len(of_kind(sent, "video"))


@pytest.mark.journey
@pytest.mark.slow("Spark computes, and a PDF is drawn")
def test_a_report_of_what_was_published_is_made_and_looked_at(
    page: Page, server: ServerProcess, keys: Keys, short_clip: Path
) -> None:
    """Of two sessions a few seconds apart, and of a publish that was refused: the first run has seen but one."""
    publish(server, keys, short_clip, [STREAM])
    refused = subprocess.run(publishing(short_clip, f"{server.rtmp}/{STREAM}?key=wrong"), check=False, timeout=60)
    assert refused.returncode != 0
    page.goto(f"{server.http}/jobs/")
    page.click("#run-now")
    # The run's page shows by itself how it goes on, and how it ends.
    expect(page.locator("h1")).to_have_text(re.compile(r"Run \d+"))
    expect(page.locator("#run [data-state]")).to_have_attribute("data-state", "done", timeout=300_000)
    expect(page.locator("#log li").first).to_contain_text("Begins on")
    expect(page.locator("#parts tr[data-state=done]").first).to_be_visible()
    page.goto(f"{server.http}/jobs/")
    expect(page.locator("#places")).to_contain_text("Spark runs on its worker's machine")
    assert page.locator("#strips .l-done").count() >= 1

    page.goto(f"{server.http}/reports/")
    page.get_by_role("button", name="Make a report").click()
    page.select_option("#make [name=kind]", "broadcast")
    page.fill("#make [name=scope]", STREAM)
    page.get_by_role("button", name="Make report").click()
    # A broadcast ends when nothing came for 300 s.
    expect(page.locator("#make .err")).to_contain_text("No broadcast of live/reported has ended")
    page.select_option("#make [name=kind]", "daily")
    sessions = server.sessions(STREAM)
    page.fill("#make [name=day]", min(session["started_at"] for session in sessions)[:10])
    page.get_by_role("button", name="Make report").click(timeout=LIMITS_MS["report"])

    sheet = page.locator("#sheet")
    expect(sheet.locator(".prov")).to_contain_text("UTC")
    expect(page.locator(f"#streams tr[data-stream='{STREAM}']")).to_be_visible()
    assert len(sheet.locator("svg.plot .s-median").first.get_attribute("d") or "") > 20
    sheet.get_by_text("As a table").first.click()
    expect(sheet.locator(".plotted tbody tr").first).to_be_visible()


@pytest.mark.journey
@pytest.mark.slow("a report is made and mailed by the worker")
def test_report_is_mailed_once_per_recipient_with_charts_and_csv(page: Page, mails: MailReceiver) -> None:
    for again in (False, True):
        page.get_by_role("button", name="E-mail").click()
        page.fill("#mail textarea", TO)
        page.get_by_role("button", name="Send").click()
        said = "had it already" if again else "It is sent to 1."
        expect(page.locator(".banner.info")).to_contain_text(said)
        expect(page.locator(f"#deliveries tr[data-recipient='{TO}']")).to_have_attribute(
            "data-state", "sent", timeout=60_000
        )
    (mail,) = mails.got
    assert mail["To"] == TO
    assert "Daily stream report" in mail["Subject"]
    assert STREAM in body_of(mail, "plain")
    shown = body_of(mail, "html")
    assert STREAM in shown
    pictures: dict[str, Any] = {
        part["Content-ID"].strip("<>"): part for part in mail.walk() if part.get_content_type() == "image/png"
    }
    assert set(re.findall(r'src="cid:([^"]+)"', shown)) == set(pictures)
    for part in pictures.values():
        data = base64.b64encode(part.get_content()).decode()
        width, height, colours = page.evaluate(PIXELS, f"data:image/png;base64,{data}")
        assert width > 800 > height > 200
        assert colours > 10
    (attached,) = [part for part in mail.iter_attachments() if part.get_content_type() == "text/csv"]
    assert STREAM in attached.get_content()


def test_report_json_csv_and_pdf_have_the_same_figures(page: Page) -> None:
    words = page.locator("#sheet h1").inner_text()
    document = json.loads(saved(page, link(page, "JSON")))
    assert document["period"]["words"] == words
    (row,) = [
        row for row in csv.DictReader(saved(page, link(page, "CSV")).decode().splitlines()) if row["stream"] == STREAM
    ]
    assert float(row["p50"]) == round(document["streams"][0]["p50"], 1)
    printed = saved(page, link(page, "PDF"), LIMITS_MS["pdf"])
    text = text_of(printed)
    assert words in text
    assert STREAM in text
    assert pypdf.PdfReader(io.BytesIO(printed)).pages[0].images


def test_printed_report_contains_only_the_report_sheet(page: Page) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    for gone in (".rail", ".report-bar", "#deliveries", ".tabs"):
        expect(page.locator(gone).first).to_be_hidden()
    colours = page.locator("#sheet").evaluate(
        "sheet => [getComputedStyle(sheet).color, getComputedStyle(sheet).backgroundColor]"
    )
    assert colours == ["rgb(20, 24, 29)", "rgb(255, 255, 255)"]
    paper = page.pdf(prefer_css_page_size=True)
    assert [round(float(side)) for side in pypdf.PdfReader(io.BytesIO(paper)).pages[0].mediabox[2:]] == [595, 842]
    text = text_of(paper)
    assert STREAM in text
    assert "All reports" not in text


def test_report_made_by_command_has_the_figures_of_the_samples(
    server: ServerProcess, mails: MailReceiver, tmp_path: Path
) -> None:
    sessions = server.sessions(STREAM)
    assert len(sessions) == 2
    day = min(session["started_at"] for session in sessions)[:10]
    file = tmp_path / "report.pdf"
    words = ("report", "make", "daily", "--from", day, "--stream", STREAM, "--output", str(file))
    server.manage(*words, "--send", "command@example.org")
    made = max(row["id"] for row in server.items("/api/v1/reports") if row["scope"] == STREAM)
    document = server.get(f"/api/v1/reports/{made}")["document"]
    figures = document["figures"]
    media = "video_bytes + audio_bytes > 0"
    live_ms, out_bytes, mean_kbps, p50, player_ms = samples(
        server,
        STREAM,
        f"sum(elapsed_ms) filter ({media})",
        "sum(out_bytes)",
        "8 * sum(video_bytes) / sum(elapsed_ms)",
        "quantile_disc(video_kbps, 0.5)",
        "sum(players * elapsed_ms)",
    )
    assert figures["live_h"] * 3_600_000 == pytest.approx(live_ms)
    assert figures["delivered_gb"] * 1e9 == pytest.approx(out_bytes)
    assert figures["mean_kbps"] == pytest.approx(mean_kbps)
    assert figures["p50"] == pytest.approx(p50, rel=0.01)
    assert figures["player_hours"] * 3_600_000 == pytest.approx(player_ms)
    assert (figures["starts"], figures["broadcasts"], figures["reconnects"]) == (2, 1, 1)
    assert 0 < figures["mttr_s"] < 300
    assert figures["accepted"] == 2
    (row,) = document["streams"]
    assert (row["stream"], row["reconnects"]) == (STREAM, 1)
    assert document["completeness"]["done"] == document["completeness"]["expected"] >= 1

    mail = mails.got[-1]
    assert mail["To"] == "command@example.org"
    kinds = [part.get_content_type() for part in mail.walk()]
    assert kinds.count("image/png") == len(document["charts"]) == 1
    assert STREAM in body_of(mail, "plain")
    assert document["period"]["words"] in body_of(mail, "plain")
    assert STREAM in text_of(file.read_bytes())
