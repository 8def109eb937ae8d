"""Stream keys: secrets, states, rotation; and a table of them, brought over whole or not, with no key in a message."""

import io
import math
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from ingest.models import Application, Session, Stream, StreamKey
from ingest.services import keys
from ingest.services.keys import KeyTaken, NewKey
from tests.ingest.admitting import NOW
from tests.ingest.operators import run, run_json


def test_a_secret_has_at_least_190_random_bits() -> None:
    secrets = {keys.generate() for _ in range(1000)}
    assert len(secrets) == 1000
    assert all(re.fullmatch(r"rk_[0-9A-Za-z]{32}", secret) for secret in secrets)
    assert 32 * math.log2(62) >= 190


def test_a_row_holds_nothing_of_the_secret_but_its_beginning(key: NewKey) -> None:
    row = StreamKey.objects.filter(pk=key.key.pk).values().get()
    assert row["prefix"] == key.secret[:7]
    assert not [value for value in row.values() if key.secret[7:] in str(value)]
    assert key.secret not in repr(key)


def test_the_digest_depends_on_the_pepper(settings: Settings) -> None:
    secret = keys.generate()
    before = keys.digest(secret)
    settings.KEY_PEPPER = "another pepper"
    assert keys.digest(secret) != before


def test_a_key_is_found_by_its_whole_secret_only(key: NewKey) -> None:
    assert keys.find(secret=key.secret) == key.key
    assert keys.find(secret=key.secret[:-1]) is None
    assert keys.find(secret=key.secret.upper()) is None
    assert keys.find(secret="") is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "active"),
        ({"enabled": False}, "disabled"),
        ({"expires_at": NOW + timedelta(seconds=1)}, "active"),
        ({"expires_at": NOW}, "expired"),
        ({"revoked_at": NOW}, "revoked"),
        ({"revoked_at": NOW, "grace_until": NOW + timedelta(seconds=1)}, "active"),
        ({"revoked_at": NOW, "grace_until": NOW}, "revoked"),
        ({"revoked_at": NOW, "grace_until": NOW + timedelta(hours=1), "enabled": False}, "disabled"),
    ],
)
def test_key_state_follows_expiry_revocation_grace_and_enabled_flag(fields: dict[str, object], expected: str) -> None:
    assert keys.state(key=StreamKey(**fields), now=NOW) == expected


@pytest.mark.parametrize(
    ("networks", "address", "allowed"),
    [
        ([], "192.0.2.7", True),
        (["192.0.2.0/24"], "192.0.2.7", True),
        (["192.0.2.0/24"], "192.0.3.7", False),
        (["192.0.2.0/24"], "::ffff:192.0.2.7", True),
        (["::ffff:192.0.2.0/120"], "192.0.2.7", True),
        (["::ffff:192.0.2.0/120"], "192.0.3.7", False),
        (["::/0"], "192.0.2.7", False),
        (["198.51.100.0/24", "2001:db8::/32"], "2001:db8::1", True),
        (["2001:db8::/32"], "fe80::1%eth0", False),
        (["192.0.2.0/24"], "2001:db8::1", False),
        (["192.0.2.0/24"], "not an address", False),
    ],
)
def test_key_is_allowed_only_from_its_networks(networks: list[str], address: str, allowed: bool) -> None:
    assert keys.allows(key=StreamKey(allowed_networks=networks), address=address) is allowed


@pytest.mark.both_forms
def test_a_network_with_host_bits_is_refused(stream: Stream) -> None:
    with pytest.raises(ValidationError):
        keys.create(stream=stream, allowed_networks=["192.0.2.7/24"])


def test_an_imported_key_keeps_no_beginning(stream: Stream) -> None:
    made = keys.create(stream=stream, secret="oldserver-key-1")
    assert made.secret == "oldserver-key-1"
    assert made.key.prefix == ""
    assert keys.find(secret="oldserver-key-1") == made.key


@pytest.mark.stores
def test_a_secret_belongs_to_one_key(stream: Stream, key: NewKey) -> None:
    with pytest.raises(KeyTaken):
        keys.create(stream=stream, secret=key.secret)
    assert StreamKey.objects.count() == 1


@pytest.mark.parametrize("secret", ["", "a b", "a/b", "a?b", "a&b", "x" * 256, "tab\t", "nul\0", "cam1"])
def test_unsendable_secret_or_public_name_is_refused_as_key(stream: Stream, secret: str) -> None:
    with pytest.raises(ValidationError):
        keys.create(stream=stream, secret=secret)


def test_rotation_hands_the_rights_on(stream: Stream) -> None:
    rights: dict[str, Any] = {
        "label": "van",
        "max_kbps": 4000,
        "over_limit": "close",
        "allowed_networks": ["192.0.2.0/24"],
        "enabled": False,
        "expires_at": timezone.now() + timedelta(days=1),
    }
    old = keys.create(stream=stream, **rights)
    new = keys.rotate(key=old.key)
    assert new.secret != old.secret
    assert {name: getattr(new.key, name) for name in rights} == rights
    StreamKey.objects.filter(pk=new.key.pk).update(enabled=True)
    new.key.refresh_from_db()
    assert keys.state(key=StreamKey.objects.get(pk=old.key.pk)) == "revoked"
    assert keys.state(key=new.key) == "active"


def test_a_rotated_key_works_until_its_grace_ends_or_it_is_revoked(key: NewKey) -> None:
    keys.rotate(key=key.key, grace=timedelta(hours=1))
    old = StreamKey.objects.get(pk=key.key.pk)
    assert old.revoked_at is not None
    assert keys.state(key=old, now=old.revoked_at + timedelta(minutes=59)) == "active"
    assert keys.state(key=old, now=old.revoked_at + timedelta(minutes=61)) == "revoked"
    keys.revoke(key=key.key)
    assert keys.state(key=StreamKey.objects.get(pk=key.key.pk)) == "revoked"


def test_rotation_brings_no_revoked_key_back(key: NewKey) -> None:
    keys.revoke(key=key.key)
    with pytest.raises(ValidationError, match="revoked or rotated"):
        keys.rotate(key=key.key, grace=timedelta(hours=1))
    assert keys.state(key=StreamKey.objects.get()) == "revoked"


@pytest.mark.stores
def test_a_key_is_rotated_once(key: NewKey) -> None:
    read_before = StreamKey.objects.get(pk=key.key.pk)
    keys.rotate(key=key.key, grace=timedelta(hours=1))
    with pytest.raises(ValidationError, match="Rotate its successor"):
        keys.rotate(key=read_before, grace=timedelta(days=7))
    assert StreamKey.objects.count() == 2


@pytest.mark.parametrize("grace", [timedelta(days=91), timedelta(seconds=-1)])
def test_rotation_grace_over_90_days_or_negative_is_refused(key: NewKey, grace: timedelta) -> None:
    with pytest.raises(ValidationError, match="90 days"):
        keys.rotate(key=key.key, grace=grace)


def test_an_expired_key_has_no_successor(stream: Stream) -> None:
    old = keys.create(stream=stream, expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(ValidationError, match="expired"):
        keys.rotate(key=old.key)


def over_limit(key: StreamKey, *ago: timedelta) -> None:
    for each in ago:
        Session.objects.create(
            kind="publish", app="live", name="cam1", key=key, ended_at=NOW - each, end_reason="over_limit"
        )


@pytest.mark.parametrize(
    ("ago_s", "rests_s"),
    [
        ([], None),
        ([10], 20),
        ([31], None),
        ([10, 60], 50),
        ([10, 60, 300, 600], 230),
        ([10, *range(60, 3600, 60)], 890),
        ([59, 3601], None),
    ],
)
def test_key_over_its_bitrate_limit_is_blocked_longer_each_time(
    stream: Stream, ago_s: list[int], rests_s: int | None
) -> None:
    key = keys.create(stream=stream, max_kbps=1000, over_limit="close").key
    over_limit(key, *(timedelta(seconds=each) for each in ago_s))
    expected = None if rests_s is None else NOW + timedelta(seconds=rests_s)
    assert keys.rests_until(key=key, now=NOW) == expected


@pytest.mark.parametrize("change", [{"over_limit": "warn"}, {"max_kbps": None}])
def test_key_whose_bitrate_limit_was_lifted_is_not_blocked(stream: Stream, change: dict[str, Any]) -> None:
    key = keys.create(stream=stream, max_kbps=1000, over_limit="close").key
    over_limit(key, timedelta(seconds=5))
    for name, value in change.items():
        setattr(key, name, value)
    assert keys.rests_until(key=key, now=NOW) is None


def test_a_name_that_is_a_key_is_hidden(stream: Stream, key: NewKey) -> None:
    keys.create(stream=stream, secret="oldserver-key-1")
    unknown = keys.generate()
    hidden = keys.hide_all(["cam1", key.secret, unknown, "oldserver-key-1"])
    assert hidden["cam1"] == "cam1"
    assert hidden[key.secret] == f"{key.secret[:7]}…"
    assert hidden[unknown][-1] == "…"
    assert "server" not in hidden["oldserver-key-1"]


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
def test_key_import_creates_keys_and_streams_from_csv(table: Path) -> None:
    table.write_text(f"\ufeff{TABLE}")  # With the mark by which spreadsheets begin their UTF-8.
    made = run_json("streamkey", "import", str(table))
    assert made == {"keys": 3, "streams_made": ["live/cam1", "live/cam2"], "dry_run": False}
    first, second, third = (StreamKey.objects.get(digest=keys.digest(f"oldserver-key-{n}")) for n in (1, 2, 3))
    assert (first.stream.path, first.label, first.max_kbps, first.over_limit) == ("live/cam1", "van", 6000, "close")
    assert first.expires_at == datetime(2030, 1, 31, tzinfo=UTC)
    assert first.allowed_networks == ["192.0.2.0/24", "2001:db8::/32"]
    assert (second.expires_at, second.max_kbps, second.allowed_networks) == (None, None, [])
    assert (third.stream.path, third.label, third.prefix) == ("live/cam2", "studio two", "")


@pytest.mark.usefixtures("application")
def test_key_import_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("key,app/name\noldserver-key-1,live/cam1\n"))
    assert "Imported 1 key and made 1 stream for them." in run("streamkey", "import", "-")
    assert keys.find(secret="oldserver-key-1") is not None


def test_a_dry_run_makes_nothing(table: Path) -> None:
    table.write_text(TABLE)
    assert "Would import 3 keys and make 2 streams for them." in run("streamkey", "import", str(table), "--dry-run")
    assert not StreamKey.objects.exists()
    assert not Stream.objects.exists()


def test_key_import_with_bad_lines_names_them_without_the_secrets(table: Path) -> None:
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
def test_key_import_reports_an_error_by_line_without_the_secret(table: Path, lines: str, said: str) -> None:
    error = refused(lines, table)
    assert said in error
    assert error.startswith("Line ")
    assert "hidden" not in error.replace("live/hidden-key", "")


@pytest.mark.both_forms
def test_key_import_with_an_existing_key_is_refused_by_line(table: Path, stream: Stream) -> None:
    keys.create(stream=stream, secret="oldserver-key-2")
    table.write_text(TABLE)
    with pytest.raises(CommandError, match=r"^Line 3: Another key has this secret already\.$"):
        run("streamkey", "import", str(table))
    assert StreamKey.objects.count() == 1


def test_key_import_of_an_unreadable_file_is_refused(table: Path) -> None:
    with pytest.raises(CommandError, match="can't be read"):
        run("streamkey", "import", str(table))
    table.write_bytes(b"app/name,key\nlive/cam1,\xff\xfe\n")
    with pytest.raises(CommandError, match="not in UTF-8"):
        run("streamkey", "import", str(table))


@pytest.mark.stores
def test_key_import_of_2000_keys_takes_at_most_60_queries(
    table: Path, application: Application, django_assert_max_num_queries: object
) -> None:
    lines = [f"live/cam{number % 50},oldserver-key-{number}" for number in range(2000)]
    table.write_text("\n".join(["app/name,key", *lines]))
    with django_assert_max_num_queries(60):  # type: ignore[operator]
        assert run_json("streamkey", "import", str(table))["keys"] == 2000
    assert Stream.objects.filter(application=application).count() == 50
