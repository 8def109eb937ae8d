"""`manage.py stream`, and the verbs of `application`: making, showing, disabling and deleting."""

import io
import sys

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from pytest_django import DjangoAssertNumQueries

from ingest.models import Application, Stream
from ingest.services import removal
from ingest.services.keys import NewKey
from tests.ingest.operating import run, run_json
from tests.ingest.removing import meanwhile
from tests.ingest.test_removal import session_of


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


def test_however_many_there_are_they_are_asked_for_at_once(
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
def test_what_goes_with_it_is_said_and_asked_for(
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
