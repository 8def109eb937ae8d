"""API tokens: what opens, what does not, and that the secret stays with its maker."""

import io
import json
import logging
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from dashboard import access
from dashboard.models import ApiToken
from ingest.services.roles import ROLES
from tests.dashboard.conftest import client_of, make_user


def status(secret: str, scheme: str = "Bearer", path: str = "/api/v1/streams") -> int:
    return Client().get(path, headers={"Authorization": f"{scheme} {secret}"}).status_code


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("apitoken", *words, stdout=out)
    return out.getvalue()


def test_a_token_opens_until_it_is_revoked(db: None) -> None:
    made = access.create_token(name="ci", role="viewer")
    assert status(made.secret) == 200
    assert status(made.secret, scheme="bearer") == 200
    access.revoke_token(token=made.token)
    assert status(made.secret) == 401


def test_a_token_opens_until_it_expires(db: None) -> None:
    now = timezone.now()
    assert status(access.create_token(name="a", role="viewer", expires_at=now + timedelta(hours=1)).secret) == 200
    assert status(access.create_token(name="b", role="viewer", expires_at=now - timedelta(seconds=1)).secret) == 401


@pytest.mark.parametrize("secret", ["", "rt_", "rt_" + "a" * 32, "\u00e9", "a b", "x" * 10000])
def test_a_wrong_token_opens_nothing(db: None, secret: str) -> None:
    access.create_token(name="ci", role="viewer")
    assert status(secret.encode().decode("latin-1")) == 401


def test_a_wrong_token_is_not_saved_by_a_session(viewer: Client) -> None:
    assert viewer.get("/api/v1/streams", headers={"Authorization": "Bearer nonsense"}).status_code == 401


def test_only_a_digest_is_kept(db: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    made = access.create_token(name="ci", role="viewer")
    status(made.secret)
    row = ApiToken.objects.values().get()
    assert made.secret not in str(row)
    assert made.secret[len(row["prefix"]) :] not in str(row)
    assert len(row["digest"]) == 64
    assert made.secret not in repr(made)
    assert made.secret not in caplog.text


def test_the_digest_hangs_on_the_pepper(db: None, settings: pytest.FixtureRequest) -> None:
    made = access.create_token(name="ci", role="viewer")
    settings.KEY_PEPPER = "another"  # type: ignore[attr-defined]
    assert status(made.secret) == 401


@pytest.mark.both_forms
def test_its_use_is_noted_at_most_once_a_minute(db: None) -> None:
    made = access.create_token(name="ci", role="viewer")
    start = timezone.now()
    for seconds, noted in ((0, 0), (59, 0), (60, 60), (100, 60)):
        access.find_token(secret=made.secret, now=start + timedelta(seconds=seconds))
        made.token.refresh_from_db()
        assert made.token.last_used_at == start + timedelta(seconds=noted)


def test_the_command_prints_what_scripts_expect(db: None) -> None:
    made = json.loads(run("create", "ci", "--role", "operator", "--json"))
    assert made.keys() == {"name", "role", "token"}
    assert (made["name"], made["role"]) == ("ci", "operator")
    assert status(made["token"]) == 200
    listed = json.loads(run("list", "--json"))
    assert listed["count"] == 1
    assert listed["items"][0]["name"] == "ci"
    assert listed["items"][0]["last_used_at"].endswith("Z")
    assert made["token"] not in run("list") + run("list", "--json")
    run("revoke", "ci")
    assert status(made["token"]) == 401
    assert "revoked" in run("list")


@pytest.mark.parametrize("role", list(ROLES))
def test_every_role_can_have_a_token(db: None, role: str) -> None:
    assert json.loads(run("create", "ci", "--role", role, "--json"))["role"] == role


def test_the_command_refuses_with_a_sentence(db: None) -> None:
    run("create", "ci", "--role", "viewer")
    with pytest.raises(CommandError, match="'ci' exists"):
        run("create", "ci", "--role", "viewer")
    run("revoke", "ci")
    run("create", "ci", "--role", "viewer", "--expires", "2099-01-31")
    for words in (
        ("create", "x", "--role", "emperor"),
        ("create", "x", "--role", "viewer", "--expires", "soon"),
        ("create", "", "--role", "viewer"),
        ("revoke", "nobody"),
    ):
        with pytest.raises(CommandError):
            run(*words)


def test_the_admin_shows_a_new_secret_once(db: None) -> None:
    user = make_user("admin")
    user.is_staff = True
    user.save()
    client = client_of(user)
    answer = client.post(
        "/admin/dashboard/apitoken/add/", {"name": "ci", "role": "viewer", "expires_at_0": "", "expires_at_1": ""}
    )
    page = answer.content.decode()
    secret = page.split('id="new-token">')[1].split("<")[0]
    assert "no-store" in answer["Cache-Control"]
    assert status(secret) == 200
    token = ApiToken.objects.get()
    assert token.created_by == user
    for path in ("/admin/dashboard/apitoken/", f"/admin/dashboard/apitoken/{token.pk}/change/", "/admin/"):
        later = client.get(path, follow=True)
        assert later.status_code == 200
        assert secret not in later.content.decode()


def test_the_admin_revokes_and_changes_nothing_else(db: None) -> None:
    user = make_user("admin")
    user.is_staff = True
    user.save()
    client = client_of(user)
    made = access.create_token(name="ci", role="viewer")
    client.post(f"/admin/dashboard/apitoken/{made.token.pk}/change/", {"name": "ci", "role": "admin"})
    made.token.refresh_from_db()
    assert made.token.role == "viewer"
    client.post("/admin/dashboard/apitoken/", {"action": "revoke", "_selected_action": [made.token.pk]})
    assert status(made.secret) == 401


@pytest.mark.both_forms
def test_the_admin_says_when_a_name_is_taken(db: None) -> None:
    user = make_user("admin")
    user.is_staff = True
    user.save()
    access.create_token(name="ci", role="viewer")
    answer = client_of(user).post("/admin/dashboard/apitoken/add/", {"name": "ci", "role": "viewer"})
    assert "A token of this name exists" in answer.content.decode()
    assert ApiToken.objects.count() == 1
