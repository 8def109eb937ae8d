"""A report of what a real encoder published, with a break: its figures are those of the same Parquet by DuckDB."""

import io
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pypdf import PdfReader

from tests.e2e.programs import Keys, key_url
from tests.receivers import MailReceiver, mail_receiver
from tests.server_process import ServerProcess
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.spark, pytest.mark.timeout(300)]

STREAM = "live/made-into-a-report"


@pytest.fixture(scope="module")
def inbox() -> Iterator[MailReceiver]:
    with mail_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def document(server: ServerProcess, keys: Keys, short_clip: Path, inbox: MailReceiver, folder: Path) -> dict[str, Any]:
    """Of two sessions a few seconds apart, and of a publish that was refused."""
    require_tool("java")
    url = key_url(keys["made-into-a-report"], server.rtmp, "name")
    command = ["ffmpeg", "-v", "error", "-re", "-i", str(short_clip), "-c", "copy", "-f", "flv"]
    for _ in range(2):
        subprocess.run([*command, url], check=True, timeout=60)
        server.wait_for_state(STREAM, "offline", timeout_s=20)
    refused = subprocess.run([*command, f"{server.rtmp}/{STREAM}?key=wrong"], check=False, timeout=60)
    assert refused.returncode != 0
    sessions = server.items("/api/v1/sessions?kind=publish&name=made-into-a-report")
    assert len(sessions) == 2
    run = server.manage_json("analytics", "run")
    assert run["state"] == "done"
    day = min(session["started_at"] for session in sessions)[:10]
    words = ("report", "make", "daily", "--from", day, "--stream", STREAM, "--output", str(folder / "report.pdf"))
    with_mail = {"RTMPWEB_EMAIL_URL": f"smtp://127.0.0.1:{inbox.port}"}
    server.manage(*words, "--send", "ops@example.org", environment=with_mail)
    (row,) = [row for row in server.items("/api/v1/reports") if row["scope"] == STREAM]
    status, report = server.request(f"/api/v1/reports/{row['id']}")
    assert status == 200
    found: dict[str, Any] = report["document"]
    return found


def samples(server: ServerProcess, expression: str) -> Any:
    app, _, name = STREAM.partition("/")
    lake = server.folder / "lake" / "samples" / "v=1"
    (row,) = duckdb.execute(
        f"select {expression} from (select distinct on (session, sequence) * from "  # noqa: S608
        f"read_parquet('{lake}/*/*/*.parquet', union_by_name = true) where app = '{app}' and name = '{name}')"
    ).fetchall()
    return row[0]


def test_its_figures_are_those_of_the_samples(server: ServerProcess, document: dict[str, Any]) -> None:
    figures = document["figures"]
    media = "video_bytes + audio_bytes > 0"
    assert figures["live_h"] * 3_600_000 == pytest.approx(samples(server, f"sum(elapsed_ms) filter ({media})"))
    assert figures["delivered_gb"] * 1e9 == pytest.approx(samples(server, "sum(out_bytes)"))
    assert figures["mean_kbps"] == pytest.approx(samples(server, "8 * sum(video_bytes) / sum(elapsed_ms)"))
    assert figures["p50"] == pytest.approx(samples(server, "quantile_disc(video_kbps, 0.5)"), rel=1e-6)
    assert figures["player_hours"] * 3_600_000 == pytest.approx(samples(server, "sum(players * elapsed_ms)"))
    assert (figures["starts"], figures["broadcasts"], figures["reconnects"]) == (2, 1, 1)
    assert 0 < figures["mttr_s"] < 300
    assert figures["accepted"] == 2
    (row,) = document["streams"]
    assert (row["stream"], row["reconnects"]) == (STREAM, 1)
    assert document["completeness"]["done"] == document["completeness"]["expected"] >= 1


def test_what_was_sent_and_written_says_the_same(document: dict[str, Any], inbox: MailReceiver, folder: Path) -> None:
    (message,) = inbox.got
    kinds = [part.get_content_type() for part in message.walk()]
    assert kinds.count("image/png") == len(document["charts"]) == 1
    text = message.get_body(("plain",))
    assert text is not None
    assert STREAM in text.get_content()
    assert document["period"]["words"] in text.get_content()
    made = PdfReader(io.BytesIO((folder / "report.pdf").read_bytes()))
    assert STREAM in "".join(page.extract_text() for page in made.pages)
