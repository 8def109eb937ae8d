"""`manage.py ban`, for people and scripts."""

from datetime import timedelta

import pytest
from django.core.management import CommandError
from django.utils import timezone
from pytest_django import Settings

from ingest.models import Ban
from ingest.services import bans
from tests.ingest.operating import run, run_json


@pytest.mark.django_db
def test_add_list_and_lift(settings: Settings) -> None:
    settings.BAN_S = 600
    assert "No address is banned" in run("ban", "list")
    assert "192.0.2.7 is banned until" in run("ban", "add", "192.0.2.7")
    made = run_json("ban", "add", "2001:db8:1:2::9", "--seconds", "60")
    assert (made["address"], made["guesses"], made["node"]) == ("2001:db8:1:2::/64", 0, "")
    bans.impose(address="192.0.2.9", seconds=60, now=timezone.now(), guesses=10, node="node-a")
    found = run_json("ban", "list")
    assert found["count"] == 3
    assert {item["address"] for item in found["items"]} == {"192.0.2.7", "192.0.2.9", "2001:db8:1:2::/64"}
    listed = run("ban", "list")
    assert "10 wrong secrets on node-a" in listed
    assert "by an operator" in listed
    assert run_json("ban", "lift", "2001:db8:1:2:ffff::1") == {"lifted": 1}
    assert "heard again" in run("ban", "lift", "::ffff:192.0.2.7")
    assert [item["address"] for item in run_json("ban", "list")["items"]] == ["192.0.2.9"]


@pytest.mark.django_db
def test_a_ban_that_is_over_is_not_listed() -> None:
    bans.impose(address="192.0.2.7", seconds=1, now=timezone.now() - timedelta(seconds=2))
    assert run_json("ban", "list")["items"] == []
    assert Ban.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("lift", "192.0.2.7"), "192.0.2.7 is not banned"),
        (("lift", "nonsense"), "is no address"),
        (("add", "192.0.2.0/24"), "is no address"),
        (("add", "192.0.2.7/64"), "can be banned"),
        (("add", "192.0.2.7", "--seconds", "0"), "from 1 to"),
    ],
)
def test_what_is_wrong_is_said(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run("ban", *words)
    assert not Ban.objects.exists()


@pytest.mark.django_db
def test_a_network_is_named_as_it_is_listed() -> None:
    run("ban", "add", "2001:db8:1:2::/64")
    assert run_json("ban", "lift", "2001:db8:1:2::/64") == {"lifted": 1}
