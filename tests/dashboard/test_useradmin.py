"""Accounts in the admin: the role admin gives nobody more than it has, and takes over nobody who may do more."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from ingest.services import roles
from tests.dashboard.conftest import PASSWORD, client_of, make_user

OTHER_PASSWORD = "correct-staple-7"


@pytest.fixture
def anna(db: None) -> User:
    """Role admin, with the staff mark."""
    user = make_user(roles.ADMIN, name="anna")
    user.is_staff = True
    user.save()
    return user


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
    user = make_user(name="olga")
    user.groups.add(ops)
    User.objects.filter(pk=user.pk).update(is_active=False)
    return user


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


def as_superuser(client: Client, who: User) -> int:
    return post(client, "auth_user_change", who.pk, **account(who, is_superuser="on"))


def with_every_permission(client: Client, who: User) -> int:
    return post(client, "auth_user_change", who.pk, **account(who, user_permissions=every_permission()))


def into_a_higher_group(client: Client, who: User) -> int:
    groups = [Group.objects.get(name="ops").pk, Group.objects.get(name=roles.ADMIN).pk]
    return post(client, "auth_user_change", who.pk, **account(who, groups=groups))


def by_the_own_role(client: Client, who: User) -> int:
    role = Group.objects.get(name=roles.ADMIN)
    return post(client, "auth_group_change", role.pk, name=role.name, permissions=every_permission())


def by_a_new_group(client: Client, who: User) -> int:
    return post(client, "auth_group_add", name="mine", permissions=every_permission())


def without_a_role(client: Client, who: User) -> int:
    return post(client, "auth_group_delete", Group.objects.get(name=roles.VIEWER).pk, post="yes")


@pytest.mark.usefixtures("ops")
@pytest.mark.parametrize(
    ("way", "status"),
    [
        (as_superuser, 302),
        (with_every_permission, 302),
        (into_a_higher_group, 200),
        (by_the_own_role, 403),
        (by_a_new_group, 403),
        (without_a_role, 403),
    ],
)
@pytest.mark.parametrize("whom", ["anna", "vera"])
def test_nobody_gets_more_than_the_role_admin_has(
    client: Client, anna: User, way: Callable[[Client, User], int], status: int, whom: str
) -> None:
    """What the form does not have (302) is left as it is; what it does not offer (200) is said at its field."""
    who = anna if whom == "anna" else make_user(roles.VIEWER, name="vera")
    before = powers()
    assert way(client, who) == status
    assert powers() == before


def password(client: Client, who: User) -> int:
    chosen = {"usable_password": "true", "password1": OTHER_PASSWORD, "password2": OTHER_PASSWORD}
    return post(client, "auth_user_password_change", who.pk, **chosen)


def another_name(client: Client, who: User) -> int:
    return post(client, "auth_user_change", who.pk, **account(who, username="nobody"))


def deletion(client: Client, who: User) -> int:
    return post(client, "auth_user_delete", who.pk, post="yes")


def deletion_from_the_list(client: Client, who: User) -> int:
    act = {"action": "delete_selected", "_selected_action": [who.pk], "post": "yes"}
    return post(client, "auth_user_changelist", **act)


@pytest.mark.parametrize("way", [password, another_name, deletion, deletion_from_the_list])
@pytest.mark.parametrize("whom", ["root", "olga"])
def test_an_account_that_may_do_more_is_not_taken_over(
    client: Client, root: User, olga: User, way: Callable[[Client, User], int], whom: str
) -> None:
    before = powers()
    assert way(client, root if whom == "root" else olga) == 403
    assert powers() == before


def test_a_new_account_is_no_superuser(client: Client, db: None) -> None:
    chosen = {"usable_password": "true", "password1": OTHER_PASSWORD, "password2": OTHER_PASSWORD}
    more = {"is_superuser": "on", "user_permissions": every_permission()}
    assert post(client, "auth_user_add", username="new", **chosen, **more) == 302
    made = User.objects.get(username="new")
    assert not made.is_superuser
    assert not made.user_permissions.exists()


def test_the_role_admin_gives_roles_and_passwords(client: Client, db: None) -> None:
    vera = make_user(name="vera")
    groups = list(Group.objects.filter(name__in=(roles.OPERATOR, roles.ADMIN)).values_list("pk", flat=True))
    assert post(client, "auth_user_change", vera.pk, **account(vera, groups=groups)) == 302
    assert set(vera.groups.values_list("name", flat=True)) == {roles.OPERATOR, roles.ADMIN}
    assert password(client, vera) == 302
    assert User.objects.get(pk=vera.pk).check_password(OTHER_PASSWORD)
    assert deletion(client, vera) == 302
    assert not User.objects.filter(pk=vera.pk).exists()


def test_who_has_users_alone_makes_no_admin(db: None) -> None:
    """Of a group that a superuser made for a help desk: what it lacks itself it can't give."""
    desk = Group.objects.create(name="help desk")
    desk.permissions.set(Permission.objects.filter(codename__in=["view_user", "add_user", "change_user"]))
    clerk = make_user("help desk", name="clerk")
    clerk.is_staff = True
    clerk.save()
    vera = make_user(name="vera")
    for role in (roles.ADMIN, roles.VIEWER):
        groups = [Group.objects.get(name=role).pk]
        assert post(client_of(clerk), "auth_user_change", vera.pk, **account(vera, groups=groups)) == 200
    assert not vera.groups.exists()


def test_a_superuser_may_all_of_it(root: User, ops: Group) -> None:
    client, vera = client_of(root), make_user(name="vera")
    assert post(client, "auth_user_change", vera.pk, **account(vera, is_superuser="on", groups=[ops.pk])) == 302
    assert User.objects.get(pk=vera.pk).is_superuser
    assert vera.groups.get() == ops
    assert by_a_new_group(client, root) == 302
    assert Group.objects.get(name="mine").permissions.count() == len(every_permission())


def test_the_role_admin_has_no_permission_to_change_groups(anna: User) -> None:
    held = {name for name in anna.get_all_permissions() if name.endswith("_group")}
    assert held == {"auth.view_group"}
