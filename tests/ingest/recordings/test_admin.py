"""Recordings in the admin: who may do what there, and that a deletion takes the file."""

from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from ingest.models import Recording
from ingest.services.roles import ROLES
from tests.ingest.recordings.conftest import Make

LIST = "admin:ingest_recording_changelist"


def client(role: str) -> Client:
    user = User.objects.create_user(role, is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    made = Client()
    made.force_login(user)
    return made


@pytest.mark.parametrize("role", ROLES)
def test_everyone_with_a_role_sees_them_and_some_delete_them(make: Make, folder: Path, role: str) -> None:
    row = make(name="show")
    staff = client(role)
    assert "show" in staff.get(reverse(LIST)).content.decode()
    path = reverse("admin:ingest_recording_delete", args=[row.pk])
    may = role in {"operator", "admin"}
    assert staff.post(path, {"post": "yes"}).status_code == (302 if may else 403)
    assert (folder / row.file).exists() is not may
    assert Recording.objects.exists() is not may


def test_several_are_deleted_at_once_but_none_that_is_recorded(make: Make, folder: Path) -> None:
    rows = [make(name="a"), make(name="b"), make(name="c", state="recording")]
    staff = client("operator")

    def delete(count: int) -> int:
        chosen = {"action": "delete_selected", "_selected_action": [row.pk for row in rows[:count]], "post": "yes"}
        return staff.post(reverse(LIST), chosen).status_code

    assert delete(3) == 403
    assert Recording.objects.count() == 3
    assert delete(2) == 302
    assert [row.name for row in Recording.objects.all()] == ["c"]
    assert [path.name for path in folder.rglob("*.flv")] == [rows[2].file.removeprefix("live/")]


def test_what_is_kept_can_be_chosen(make: Make) -> None:
    row = make()
    answer = client("operator").post(reverse("admin:ingest_recording_change", args=[row.pk]), {"keep": "on"})
    assert answer.status_code == 302
    row.refresh_from_db()
    assert row.keep
