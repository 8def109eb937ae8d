"""Keys brought over as a table: all of them or none, and no message with a key in it."""

import io
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from ingest.models import Application, Stream, StreamKey
from ingest.services import keys
from tests.ingest.operating import run, run_json

TABLE = """\
app/name,key,label,expires,max_kbps,over_limit,allow
live/cam1,oldserver-key-1,van,2030-01-31,6000,close,192.0.2.0/24 2001:db8::/32
live/cam1,oldserver-key-2,,,,,
live/cam2, "oldserver-key-3",studio two,,,,
"""


@pytest.fixture
def table(application: Application, tmp_path: Path) -> Path:
    return tmp_path / "keys.csv"


def refused(text: str, table: Path) -> str:
    table.write_text(text)
    with pytest.raises(CommandError) as error:
        call_command("streamkey", "import", str(table))
    assert not StreamKey.objects.exists()
    assert not Stream.objects.exists()
    return str(error.value)


@pytest.mark.both_forms
def test_a_table(table: Path) -> None:
    table.write_text(f"\ufeff{TABLE}")  # With the mark by which spreadsheets begin their UTF-8.
    made = run_json("streamkey", "import", str(table))
    assert made == {"keys": 3, "streams_made": ["live/cam1", "live/cam2"], "dry_run": False}
    first, second, third = (keys.find(secret=f"oldserver-key-{number}") for number in (1, 2, 3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.stream.path, first.label, first.max_kbps, first.over_limit) == ("live/cam1", "van", 6000, "close")
    assert first.expires_at == datetime(2030, 1, 31, tzinfo=UTC)
    assert first.allowed_networks == ["192.0.2.0/24", "2001:db8::/32"]
    assert (second.expires_at, second.max_kbps, second.allowed_networks) == (None, None, [])
    assert (third.stream.path, third.label, third.prefix) == ("live/cam2", "studio two", "")


@pytest.mark.usefixtures("application")
def test_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("key,app/name\noldserver-key-1,live/cam1\n"))
    assert "Imported 1 keys and made 1 streams for them." in run("streamkey", "import", "-")
    assert keys.find(secret="oldserver-key-1") is not None


def test_a_dry_run_makes_nothing(table: Path) -> None:
    table.write_text(TABLE)
    assert "Would import 3 keys and make 2 streams for them." in run("streamkey", "import", str(table), "--dry-run")
    assert not StreamKey.objects.exists()
    assert not Stream.objects.exists()


def test_one_bad_line_and_nothing_is_made(table: Path) -> None:
    said = refused(TABLE + "live/cam3,secret number 4,,,,,\nlive,oldserver-key-5,,,,,\n", table)
    assert [line.partition(":")[0] for line in said.splitlines()] == ["Line 5", "Line 6"]
    assert "secret" not in said
    assert "oldserver" not in said


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "Line 1 must name the columns"),
        ("app/name\nlive/cam1", "Line 1 must name the columns"),
        ("app/name,key,color\nlive/cam1,hidden-key,red", "Line 1 must name the columns"),
        ("app/name,key,key\nlive/cam1,hidden-key,hidden-key", "each once"),
        ("app/name,key\nlive/cam1", "another number of columns"),
        ("app/name,key\nlive/cam1,hidden-key,more", "another number of columns"),
        ('app/name,key\nlive/cam1,"hidden-key', "this is no CSV"),
        ("app/name,key\nstudio/cam1,hidden-key", "application set studio"),
        ("app/name,key\nlive/two words,hidden-key", "without blanks"),
        ("app/name,key\nlive/hidden-key,hidden-key", "public name"),
        ("app/name,key\nlive/cam1,cam2\nlive/cam2,hidden-key", "Line 2: This is a stream's public name"),
        ("app/name,key\nlive/cam1,hidden-key\n\nlive/cam2,hidden-key", "Line 4: It has the same key as line 2"),
        ("app/name,key,expires\nlive/cam1,hidden-key,soon", "is no time"),
        ("app/name,key,expires\nlive/cam1,hidden-key,999999w", "is past the year"),
        ("app/name,key,max_kbps\nlive/cam1,hidden-key,-1", "whole number above 0"),
        ("app/name,key,max_kbps\nlive/cam1,hidden-key,99999999999999", "whole number above 0"),
        ("app/name,key,over_limit\nlive/cam1,hidden-key,shout", "warn or close"),
        ("app/name,key,allow\nlive/cam1,hidden-key,192.0.2.7/24", "host bits"),
        (f"app/name,key,label\nlive/cam1,hidden-key,{'x' * 129}", "more than 128"),
        (f"app/name,key\nlive/cam1,{'x' * 256}", "can't send this key"),
    ],
)
def test_what_is_wrong_is_said(table: Path, lines: str, said: str) -> None:
    error = refused(lines, table)
    assert said in error
    assert error.startswith("Line ")
    assert "hidden" not in error.replace("live/hidden-key", "")


@pytest.mark.both_forms
def test_a_key_that_is_there_already(table: Path, stream: Stream) -> None:
    keys.create(stream=stream, secret="oldserver-key-2")
    table.write_text(TABLE)
    with pytest.raises(CommandError, match=r"^Line 3: Another key has this secret already\.$"):
        run("streamkey", "import", str(table))
    assert StreamKey.objects.count() == 1


def test_a_file_that_cannot_be_read(table: Path) -> None:
    with pytest.raises(CommandError, match="can't be read"):
        run("streamkey", "import", str(table))
    table.write_bytes(b"app/name,key\nlive/cam1,\xff\xfe\n")
    with pytest.raises(CommandError, match="not in UTF-8"):
        run("streamkey", "import", str(table))


@pytest.mark.both_forms
def test_thousands_at_once(table: Path, application: Application, django_assert_max_num_queries: object) -> None:
    lines = [f"live/cam{number % 50},oldserver-key-{number}" for number in range(2000)]
    table.write_text("\n".join(["app/name,key", *lines]))
    with django_assert_max_num_queries(60):  # type: ignore[operator]
        assert run_json("streamkey", "import", str(table))["keys"] == 2000
    assert Stream.objects.filter(application=application).count() == 50
