"""The commands' contract for scripts, and what they tell people."""

import io
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from ingest.management import base
from ingest.models import Application, Stream, StreamKey
from ingest.services import keys, removal
from ingest.services.keys import NewKey
from tests.ingest.operators import run, run_json
from tests.ingest.removing import meanwhile
from tests.ingest.test_removal import session_of


@pytest.fixture(autouse=True)
def address(settings: Settings) -> None:
    settings.RTMP_ADDRESS = ("0.0.0.0", 1935)
    settings.RTMP_HOST = ""


@pytest.mark.parametrize(
    "words",
    [
        ("streamkey", "create", "live/cam2"),
        ("streamkey", "list"),
        ("stream", "show", "live/cam1"),
        ("stream", "list"),
        ("application", "show", "live"),
        ("application", "list"),
        ("encoderlogin", "create", "live/cam1", "--user", "van-1"),
        ("playtoken", "live/cam1"),
        ("recording", "list"),
        ("recording", "check"),
        ("node", "list"),
        ("ban", "list"),
        ("apitoken", "create", "script", "--role", "viewer"),
        ("apitoken", "list"),
        ("report", "list"),
    ],
    ids=" ".join,
)
def test_json_is_one_line(stream: Stream, settings: Settings, tmp_path: Path, words: tuple[str, ...]) -> None:
    settings.RECORDINGS_DIR = tmp_path
    keys.create(stream=stream)
    out = run(*words, "--json")
    assert (out.count("\n"), out[-1]) == (1, "\n")
    assert isinstance(json.loads(out), dict)


@pytest.mark.usefixtures("application")
def test_streamkey_create_prints_server_key_and_urls() -> None:
    made = run_json("streamkey", "create", "live/cam1", "--label", "van")
    secret = made["key"]
    assert made == {
        "stream": "live/cam1",
        "key": secret,
        "server": "rtmp://127.0.0.1/live",
        "publish_url": f"rtmp://127.0.0.1/live/{secret}",
        "play_url": "rtmp://127.0.0.1/live/cam1",
    }
    key = keys.find(secret=secret)
    assert key is not None
    assert (key.stream.path, key.label) == ("live/cam1", "van")


@pytest.mark.usefixtures("application")
@pytest.mark.parametrize(
    ("listener", "host", "server"),
    [
        (("0.0.0.0", 1935), "", "rtmp://127.0.0.1/live"),
        (("0.0.0.0", 1936), "media.example.net", "rtmp://media.example.net:1936/live"),
        (("192.0.2.1", 1935), "", "rtmp://192.0.2.1/live"),
        (("::1", 1940), "", "rtmp://[::1]:1940/live"),
        (None, "media.example.net", "rtmp://media.example.net/live"),
    ],
)
def test_printed_server_url_follows_listener_and_host_settings(
    settings: Settings, listener: object, host: str, server: str
) -> None:
    settings.RTMP_ADDRESS, settings.RTMP_HOST = listener, host
    assert run_json("streamkey", "create", "live/cam1")["server"] == server


@pytest.mark.usefixtures("application")
def test_streamkey_create_stores_expiry_limits_and_networks() -> None:
    made = run_json(
        *("streamkey", "create", "live/cam1", "--expires", "2030-01-31", "--max-kbps", "6000"),
        *("--over-limit", "close"),
        *("--allow", "192.0.2.0/24", "--allow", "2001:db8::/32"),
    )
    key = keys.find(secret=made["key"])
    assert key is not None
    assert (key.max_kbps, key.over_limit) == (6000, "close")
    assert key.allowed_networks == ["192.0.2.0/24", "2001:db8::/32"]
    (item,) = run_json("streamkey", "list")["items"]
    assert (item["max_kbps"], item["over_limit"]) == (6000, "close")
    assert "6000 kbit/s, close" in run("streamkey", "list")
    assert key.expires_at == datetime(2030, 1, 31, tzinfo=UTC)


@pytest.mark.usefixtures("application")
def test_streamkey_create_imports_a_key_by_option_and_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_json("streamkey", "create", "live/cam1", "--secret", "oldserver-key-1")["key"] == "oldserver-key-1"
    monkeypatch.setattr(sys, "stdin", io.StringIO("oldserver-key-2\n"))
    assert run_json("streamkey", "create", "live/cam1", "--secret", "-")["key"] == "oldserver-key-2"
    assert [row["prefix"] for row in run_json("streamkey", "list")["items"]] == ["", ""]


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("streamkey", "create", "studio/cam1"), "application set studio"),
        (("streamkey", "create", "cam1"), "APP/NAME"),
        (("streamkey", "create", "live/"), "APP/NAME"),
        (("streamkey", "create", "live/two words"), "can't be a stream's name"),
        (("streamkey", "create", "live/cam1", "--allow", "192.0.2.7/24"), "host bits"),
        (("streamkey", "create", "live/cam1", "--expires", "soon"), "is no time"),
        (("streamkey", "create", "live/cam1", "--expires", "2030-02-31"), "is no time"),
        (("streamkey", "create", "live/cam1", "--max-kbps", "0"), "above 0"),
        (("streamkey", "create", "live/cam1", "--over-limit", "close"), "needs --max-kbps"),
        (("streamkey", "create", "live/cam1", "--secret", "cam1"), "public name"),
        (("streamkey", "list", "live/cam9"), "There is no stream"),
        (("streamkey", "revoke", "live/cam1"), "no such key"),
        (("streamkey", "revoke", "99"), "no such key"),
        (("streamkey", "rotate", "rk_" + "A" * 32), "no such key"),
        (("stream", "create", "live/cam1"), "already"),
        (("stream", "create", "studio/cam1"), "application set studio"),
        (("stream", "create", "live/two words"), "can't be a stream's name"),
        (("stream", "show", "live/cam9"), "There is no stream"),
        (("stream", "delete", "live/cam9", "--yes"), "There is no stream"),
        (("stream", "list", "studio"), "There is no application"),
        (("application", "delete", "studio", "--yes"), "There is no application"),
        (("stream", "delete", "live/cam1", "--json"), "--yes"),
        (("application", "delete", "live", "--json"), "--yes"),
    ],
)
def test_command_with_invalid_arguments_says_why_and_changes_nothing(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*words)
    assert not StreamKey.objects.exists()
    assert Stream.objects.exists()


def test_streamkey_list_shows_key_without_its_secret(key: NewKey) -> None:
    assert key.secret not in run("streamkey", "list")
    found = run_json("streamkey", "list", "live/cam1")
    assert found["count"] == 1
    item = found["items"][0]
    assert (item["stream"], item["label"], item["prefix"]) == ("live/cam1", "camera", key.secret[:7])
    assert (item["state"], item["expires_at"], item["last_used_at"]) == ("active", None, None)
    assert item["created_at"].endswith("Z")
    assert key.secret not in json.dumps(found)


def test_revoke_by_id_secret_or_stream(stream: Stream) -> None:
    made = [keys.create(stream=stream) for _ in range(4)]
    ids = [each.key.pk for each in made]
    assert run_json("streamkey", "revoke", str(ids[0])) == {"revoked": [ids[0]]}
    assert run_json("streamkey", "revoke", made[1].secret) == {"revoked": [ids[1]]}
    assert set(run_json("streamkey", "revoke", "live/cam1")["revoked"]) == set(ids[2:])
    assert {keys.state(key=key) for key in StreamKey.objects.all()} == {"revoked"}


def test_streamkey_rotate_replaces_the_single_active_key_with_grace(stream: Stream, key: NewKey) -> None:
    made = run_json("streamkey", "rotate", "live/cam1", "--grace", "24h")
    assert keys.find(secret=made["key"]) is not None
    assert made["stream"] == "live/cam1"
    assert keys.state(key=StreamKey.objects.get(pk=key.key.pk)) == "active"
    again = run_json("streamkey", "rotate", "live/cam1")  # The successor: the first one works for its grace only.
    assert keys.state(key=StreamKey.objects.get(digest=keys.digest(made["key"]))) == "revoked"
    assert keys.state(key=StreamKey.objects.get(digest=keys.digest(again["key"]))) == "active"
    keys.create(stream=stream)
    with pytest.raises(CommandError, match="several active keys"):
        run("streamkey", "rotate", "live/cam1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90s", timedelta(seconds=90)), ("24h", timedelta(days=1)), ("2w", timedelta(weeks=2)), ("0", timedelta(0))],
)
def test_duration_argument_is_parsed(text: str, expected: timedelta) -> None:
    assert base.duration(text) == expected


def test_moment_argument_is_parsed_from_timestamp_or_duration() -> None:
    assert base.moment("2030-01-31T12:00+02:00") == datetime(2030, 1, 31, 10, 0, tzinfo=UTC)
    assert base.moment("2030-01-31T12:00") == datetime(2030, 1, 31, 12, 0, tzinfo=UTC)
    assert abs(base.moment("30d") - timezone.now() - timedelta(days=30)) < timedelta(seconds=10)


@pytest.mark.django_db
def test_an_application_is_made_and_changed() -> None:
    made = run_json("application", "set", "studio")
    asks = {"encoder_login": False, "shared_objects": "none", "callback": "none", "play_start_unit": "ms"}
    asks |= {"play_recordings": "signed", "max_instances": 16}
    assert made == {"name": "studio", "enabled": True, "publish": "key", "play": "public", "record": "requested"} | asks
    asks |= {"play_start_unit": "s", "play_recordings": "as_live", "max_instances": 3}
    options = ("--play-start-unit", "s", "--play-recordings", "as_live", "--max-instances", "3")
    assert run_json("application", "set", "studio", *options) == made | asks
    assert "play_start_unit=s" in run("application", "list")
    run("application", "set", "studio", "--publish", "open", "--play", "token", "--record", "on")
    changed = run_json("application", "set", "studio", "--enabled", "off")
    assert changed == {"name": "studio", "enabled": False, "publish": "open", "play": "token", "record": "all"} | asks
    assert run_json("application", "list") == {"items": [changed], "count": 1}
    assert Application.objects.count() == 1


@pytest.mark.django_db
def test_application_set_refuses_invalid_name_or_option() -> None:
    with pytest.raises(CommandError, match="letters, digits"):
        run("application", "set", "two words")
    for option in (("--publish", "everyone"), ("--max-instances", "-1")):
        with pytest.raises(CommandError):
            run("application", "set", "live", *option)
    assert not Application.objects.exists()


@pytest.mark.usefixtures("stream")
def test_a_test_pattern_without_a_server_leaves_no_working_key(settings: Settings) -> None:
    settings.RTMP_ADDRESS = ("127.0.0.1", 9)
    with pytest.raises(CommandError, match="Nothing answers"):
        run("testpattern", "live/cam1")
    assert [keys.state(key=key) for key in StreamKey.objects.all()] == ["revoked"]


@pytest.mark.usefixtures("application")
def test_testpattern_with_bad_size_and_runrtmp_without_listener_are_refused(settings: Settings) -> None:
    with pytest.raises(CommandError, match="WIDTHxHEIGHT"):
        run("testpattern", "live/cam1", "--size", "big")
    settings.RTMP_ADDRESS = None
    with pytest.raises(CommandError, match="RTMPWEB_RTMP is off"):
        run("runrtmp")


def check(settings: Settings, **kwargs: Any) -> set[str]:
    from django.core.checks import run_checks

    return {message.id or "" for message in run_checks(**kwargs)}


def test_system_check_reports_short_pepper_and_port_conflict(settings: Settings) -> None:
    assert not {found for found in check(settings) if found.startswith("ingest.")}
    settings.KEY_PEPPER = "short"
    settings.RTMP_ADDRESS = ("0.0.0.0", 8000)
    settings.HTTP_ADDRESS = ("127.0.0.1", 8000)
    assert {found for found in check(settings) if found.startswith("ingest.")} == {"ingest.E001", "ingest.E002"}


@pytest.mark.django_db
def test_deployment_check_warns_of_missing_host_and_open_application(settings: Settings) -> None:
    assert "ingest.W001" in check(settings, include_deployment_checks=True)
    settings.RTMP_HOST = "media.example.net"
    assert "ingest.W001" not in check(settings, include_deployment_checks=True)
    Application.objects.create(name="bench", publish_policy="open")
    found = check(settings, include_deployment_checks=True, databases=["default"])
    assert "ingest.W002" in found


@pytest.mark.django_db
def test_models_and_migrations_agree() -> None:
    said = io.StringIO()
    try:
        call_command("makemigrations", check=True, dry_run=True, stdout=said)
    except SystemExit:
        pytest.fail(said.getvalue())


class Terminal(io.StringIO):
    """Standard input with somebody at it, who types this."""

    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("application")
def test_a_stream_is_made_shown_and_listed() -> None:
    made = run_json("stream", "create", "live/cam1")
    assert (made["app"], made["name"], made["enabled"]) == ("live", "cam1", True)
    shown = run_json("stream", "show", "live/cam1")
    assert {name: shown[name] for name in made} == made
    assert (shown["deletion"]["publishers"], shown["deletion"]["goes"]["keys"]) == (0, 0)
    assert run_json("stream", "list", "live") == {"items": [made], "count": 1}
    assert "live/cam1" in run("stream", "list")
    assert "Nothing goes with it." in run("stream", "show", "live/cam1")


def test_stream_list_takes_one_query_for_any_number_of_streams(
    application: Application, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        owner = User.objects.create_user(f"user-{number}")
        Stream.objects.create(application=application, name=f"cam{number}", owner=owner)
    with django_assert_num_queries(1):
        assert run_json("stream", "list")["count"] == 5


def test_a_stream_and_an_application_are_disabled_and_enabled(stream: Stream) -> None:
    assert run_json("stream", "disable", "live/cam1")["enabled"] is False
    assert run_json("application", "disable", "live")["enabled"] is False
    stream.refresh_from_db()
    assert (stream.enabled, stream.application.enabled) == (False, False)
    assert run_json("stream", "enable", "live/cam1")["enabled"] is True
    assert run_json("application", "enable", "live")["enabled"] is True


@pytest.mark.django_db
def test_an_application_is_made_once() -> None:
    made = run_json("application", "create", "studio", "--play", "token")
    assert (made["name"], made["play"]) == ("studio", "token")
    with pytest.raises(CommandError, match="already"):
        run("application", "create", "studio", "--play", "none")
    assert Application.objects.get().play_policy == "token"
    assert {name: value for name, value in run_json("application", "show", "studio").items() if name in made} == made


@pytest.mark.parametrize(("kind", "path"), [("stream", "live/cam1"), ("application", "live")])
def test_delete_command_states_what_goes_and_needs_the_typed_name(
    key: NewKey, monkeypatch: pytest.MonkeyPatch, kind: str, path: str
) -> None:
    def delete(stdin: io.StringIO) -> str:
        out = io.StringIO()
        monkeypatch.setattr(sys, "stdin", stdin)
        try:
            call_command(kind, "delete", path, stdout=out)
        except CommandError as error:
            return f"{out.getvalue()} {error}"
        return out.getvalue()

    for refused in (io.StringIO(f"{path}\n"), Terminal("yes\n"), Terminal("")):
        said = delete(refused)
        assert "1 stream key" in said
        assert "Nothing is deleted" in said
        assert Stream.objects.exists()
    assert f"Type {path} to delete it" in delete(Terminal(f"{path}\n"))
    assert not Stream.objects.exists()


@pytest.mark.parametrize(("kind", "path"), [("stream", "live/cam1"), ("application", "live")])
def test_a_script_deletes_what_is_live_by_force(
    key: NewKey, kind: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_of(key.key.stream)
    with pytest.raises(CommandError, match="is live: 1 publishing"):
        run(kind, "delete", path, "--yes")
    with monkeypatch.context() as patched:
        patched.setattr(removal, "WAIT_S", 0.0)
        with pytest.raises(CommandError, match=r"is not deleted yet: .* one session has not ended, on node-a \(up\)"):
            run(kind, "delete", path, "--yes", "--force")
    meanwhile(monkeypatch)
    done = run_json(kind, "delete", path, "--yes", "--force")
    assert (done["deleted"], done["publishers"], done["goes"]["keys"]) == (path, 1, 1)
    assert not Stream.objects.exists()
