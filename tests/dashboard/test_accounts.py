"""Accounts in the admin: the role admin gives nobody more than it has, and takes over nobody who may do more. API
tokens: what opens, what does not, and that the secret stays with its maker."""

import io
import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard import access
from dashboard.models import ApiToken
from ingest.services import roles
from ingest.services.roles import ROLES
from tests.dashboard.conftest import PASSWORD, client_of, make_user

OTHER_PASSWORD = "correct-staple-7"


@pytest.fixture
def anna(db: None) -> User:
    return make_user(roles.ADMIN, name="anna", is_staff=True)


@pytest.fixture
def client(anna: User) -> Client:
    return client_of(anna)


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root", password=PASSWORD)


@pytest.fixture
def ops(db: None) -> Group:
    """A group that a superuser made: it may what no role may."""
    group = Group.objects.create(name="ops")
    group.permissions.add(Permission.objects.get(codename="change_periodictask"))
    return group


@pytest.fixture
def olga(ops: Group) -> User:
    """Of that group; at present not active."""
    return make_user("ops", name="olga", is_active=False)


def account(user: User, **fields: Any) -> dict[str, Any]:
    """The form of an account as it is, but for `fields`."""
    return {
        "username": user.username,
        "is_active": "on",
        "is_staff": "on",
        "groups": list(user.groups.values_list("pk", flat=True)),
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
        **fields,
    }


def post(client: Client, view: str, *args: Any, **fields: Any) -> int:
    return client.post(reverse(f"admin:{view}", args=args), fields).status_code


def change(client: Client, user: User, **fields: Any) -> int:
    return post(client, "auth_user_change", user.pk, **account(user, **fields))


def powers() -> dict[str, Any]:
    """What every account and every group may do, and who gets in as whom."""
    found: dict[str, Any] = {}
    for user in User.objects.all():
        own = sorted(user.user_permissions.values_list("pk", flat=True))
        groups = sorted(user.groups.values_list("name", flat=True))
        found[f"user {user.username}"] = (user.is_superuser, user.is_active, own, groups, user.password)
    for group in Group.objects.all():
        found[f"group {group.name}"] = sorted(group.permissions.values_list("pk", flat=True))
    return found


def every_permission() -> list[int]:
    return list(Permission.objects.values_list("pk", flat=True))


def into_a_higher_group(client: Client, who: User) -> int:
    groups = [Group.objects.get(name="ops").pk, Group.objects.get(name=roles.ADMIN).pk]
    return change(client, who, groups=groups)


def by_the_own_role(client: Client, who: User) -> int:
    role = Group.objects.get(name=roles.ADMIN)
    return post(client, "auth_group_change", role.pk, name=role.name, permissions=every_permission())


def by_a_new_group(client: Client, who: User) -> int:
    return post(client, "auth_group_add", name="mine", permissions=every_permission())


@pytest.mark.usefixtures("ops")
@pytest.mark.parametrize(
    ("way", "status"),
    [
        (lambda client, who: change(client, who, is_superuser="on"), 302),
        (lambda client, who: change(client, who, user_permissions=every_permission()), 302),
        (into_a_higher_group, 200),
        (by_the_own_role, 403),
        (by_a_new_group, 403),
        (lambda client, _: post(client, "auth_group_delete", Group.objects.get(name=roles.VIEWER).pk, post="yes"), 403),
    ],
    ids=["superuser", "every permission", "higher group", "the own role", "a new group", "without a role"],
)
@pytest.mark.parametrize("whom", ["anna", "vera"])
def test_role_admin_can_not_grant_more_than_its_own_permissions(
    client: Client, anna: User, way: Callable[[Client, User], int], status: int, whom: str
) -> None:
    """What the form does not have (302) is left as it is; what it does not offer (200) is said at its field."""
    who = anna if whom == "anna" else make_user(roles.VIEWER, name="vera")
    assert {name for name in anna.get_all_permissions() if name.endswith("_group")} == {"auth.view_group"}
    before = powers()
    assert way(client, who) == status
    assert powers() == before


CHOSEN = {"usable_password": "true", "password1": OTHER_PASSWORD, "password2": OTHER_PASSWORD}


def password(client: Client, who: User) -> int:
    return post(client, "auth_user_password_change", who.pk, **CHOSEN)


def deletion(client: Client, who: User) -> int:
    return post(client, "auth_user_delete", who.pk, post="yes")


def deletion_from_the_list(client: Client, who: User) -> int:
    act = {"action": "delete_selected", "_selected_action": [who.pk], "post": "yes"}
    return post(client, "auth_user_changelist", **act)


@pytest.mark.parametrize(
    "way", [password, lambda client, who: change(client, who, username="x"), deletion, deletion_from_the_list]
)
@pytest.mark.parametrize("whom", ["root", "olga"])
def test_an_account_that_may_do_more_is_not_taken_over(
    client: Client, root: User, olga: User, way: Callable[[Client, User], int], whom: str
) -> None:
    before = powers()
    assert way(client, root if whom == "root" else olga) == 403
    assert powers() == before


def test_a_new_account_is_no_superuser(client: Client, db: None) -> None:
    more = {"is_superuser": "on", "user_permissions": every_permission()}
    assert post(client, "auth_user_add", username="new", **CHOSEN, **more) == 302
    made = User.objects.get(username="new")
    assert not made.is_superuser
    assert not made.user_permissions.exists()


def test_the_role_admin_gives_roles_and_passwords(client: Client, db: None) -> None:
    vera = make_user(name="vera")
    groups = list(Group.objects.filter(name__in=(roles.OPERATOR, roles.ADMIN)).values_list("pk", flat=True))
    assert change(client, vera, groups=groups) == 302
    assert set(vera.groups.values_list("name", flat=True)) == {roles.OPERATOR, roles.ADMIN}
    assert password(client, vera) == 302
    assert User.objects.get(pk=vera.pk).check_password(OTHER_PASSWORD)
    assert deletion(client, vera) == 302
    assert not User.objects.filter(pk=vera.pk).exists()


def test_user_manager_without_roles_can_not_assign_roles(db: None) -> None:
    """Of a group that a superuser made for a help desk: what it lacks itself it can't give."""
    desk = Group.objects.create(name="help desk")
    desk.permissions.set(Permission.objects.filter(codename__in=["view_user", "add_user", "change_user"]))
    clerk = make_user("help desk", name="clerk", is_staff=True)
    vera = make_user(name="vera")
    for role in (roles.ADMIN, roles.VIEWER):
        groups = [Group.objects.get(name=role).pk]
        assert change(client_of(clerk), vera, groups=groups) == 200
    assert not vera.groups.exists()


def test_superuser_may_assign_superuser_groups_and_permissions(root: User, ops: Group) -> None:
    client, vera = client_of(root), make_user(name="vera")
    assert change(client, vera, is_superuser="on", groups=[ops.pk]) == 302
    assert User.objects.get(pk=vera.pk).is_superuser
    assert vera.groups.get() == ops
    assert by_a_new_group(client, root) == 302
    assert Group.objects.get(name="mine").permissions.count() == len(every_permission())


def status(secret: str, scheme: str = "Bearer", path: str = "/api/v1/streams") -> int:
    return Client().get(path, headers={"Authorization": f"{scheme} {secret}"}).status_code


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("apitoken", *words, stdout=out)
    return out.getvalue()


def test_a_token_opens_until_it_expires_or_is_revoked(db: None) -> None:
    now = timezone.now()
    made = access.create_token(name="a", role="viewer", expires_at=now + timedelta(hours=1))
    assert (status(made.secret), status(made.secret, scheme="bearer")) == (200, 200)
    access.revoke_token(token=made.token)
    assert status(made.secret) == 401
    assert status(access.create_token(name="b", role="viewer", expires_at=now - timedelta(seconds=1)).secret) == 401


@pytest.mark.parametrize("secret", ["", "rt_", "rt_" + "a" * 32, "\u00e9", "a b", "x" * 10000])
def test_a_wrong_token_opens_nothing_and_is_not_saved_by_a_session(viewer: Client, secret: str) -> None:
    access.create_token(name="ci", role="viewer")
    wrong = secret.encode().decode("latin-1")
    assert status(wrong) == 401
    assert viewer.get("/api/v1/streams", headers={"Authorization": f"Bearer {wrong}"}).status_code == 401


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


@pytest.mark.stores
def test_api_token_last_use_is_recorded_at_most_once_a_minute(db: None) -> None:
    made = access.create_token(name="ci", role="viewer")
    start = timezone.now()
    for seconds, noted in ((0, 0), (59, 0), (60, 60), (100, 60)):
        access.find_token(secret=made.secret, now=start + timedelta(seconds=seconds))
        made.token.refresh_from_db()
        assert made.token.last_used_at == start + timedelta(seconds=noted)


def test_apitoken_command_creates_lists_and_revokes_with_json_output(db: None) -> None:
    made = json.loads(run("create", "ci", "--role", "operator", "--json"))
    assert made.keys() == {"name", "role", "token"}
    assert (made["name"], made["role"]) == ("ci", "operator")
    assert status(made["token"]) == 200
    listed = json.loads(run("list", "--json"))
    assert listed["count"] == 1
    assert listed["items"][0]["name"] == "ci"
    assert listed["items"][0]["last_used_at"].endswith("Z")
    assert made["token"] not in run("list") + run("list", "--json")
    for role in ROLES:
        assert json.loads(run("create", role, "--role", role, "--json"))["role"] == role
    run("revoke", "ci")
    assert status(made["token"]) == 401
    assert "revoked" in run("list")


def test_apitoken_command_refuses_invalid_input_with_an_error(db: None) -> None:
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


def test_the_admin_shows_a_new_secret_once(boss: Client) -> None:
    answer = boss.post(
        "/admin/dashboard/apitoken/add/", {"name": "ci", "role": "viewer", "expires_at_0": "", "expires_at_1": ""}
    )
    page = answer.content.decode()
    secret = page.split('id="new-token">')[1].split("<")[0]
    assert "no-store" in answer["Cache-Control"]
    assert status(secret) == 200
    token = ApiToken.objects.get()
    assert str(token.created_by) == "boss"
    for path in ("/admin/dashboard/apitoken/", f"/admin/dashboard/apitoken/{token.pk}/change/", "/admin/"):
        later = boss.get(path, follow=True)
        assert later.status_code == 200
        assert secret not in later.content.decode()


def test_the_admin_revokes_and_changes_nothing_else(boss: Client) -> None:
    made = access.create_token(name="ci", role="viewer")
    boss.post(f"/admin/dashboard/apitoken/{made.token.pk}/change/", {"name": "ci", "role": "admin"})
    made.token.refresh_from_db()
    assert made.token.role == "viewer"
    boss.post("/admin/dashboard/apitoken/", {"action": "revoke", "_selected_action": [made.token.pk]})
    assert status(made.secret) == 401


@pytest.mark.both_forms
def test_the_admin_says_when_a_name_is_taken(boss: Client) -> None:
    access.create_token(name="ci", role="viewer")
    answer = boss.post("/admin/dashboard/apitoken/add/", {"name": "ci", "role": "viewer"})
    assert "A token of this name exists" in answer.content.decode()
    assert ApiToken.objects.count() == 1
