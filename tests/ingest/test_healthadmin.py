"""A stream's own limits of its health checks, in the admin."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from ingest.models import AuditEntry, HealthOverride, Stream
from ingest.services.keys import NewKey
from tests.ingest.control import NodeApp
from tests.ingest.test_admin import stream_form
from tests.ingest.ticks import drop_after_ticks, is_up, published

pytestmark = pytest.mark.django_db


def post(client: Client, stream: Stream, *rows: dict[str, Any], initial: int = 0) -> Any:
    fields: dict[str, Any] = {"health_overrides-TOTAL_FORMS": len(rows), "health_overrides-INITIAL_FORMS": initial}
    for number, row in enumerate(rows):
        fields |= {f"health_overrides-{number}-{name}": value for name, value in row.items()}
    return client.post(reverse("admin:ingest_stream_change", args=[stream.pk]), stream_form(stream, **fields))


def test_a_check_gets_limits_of_its_own_and_the_log_says_so(admin_client: Client, stream: Stream) -> None:
    row = {"check_code": "starving", "enabled": "on", "warning": 20, "bad": 60, "hold_s": ""}
    assert post(admin_client, stream, row).status_code == 302
    made = HealthOverride.objects.get()
    assert (made.stream, made.check_code, made.warning, made.bad, made.hold_s) == (stream, "starving", 20, 60, None)
    entry = AuditEntry.objects.get(action="stream.change")
    assert "live/cam1: starving" in str(entry.detail)
    again = row | {"id": made.pk, "stream": stream.pk, "DELETE": "on"}
    assert post(admin_client, stream, again, initial=1).status_code == 302
    assert not HealthOverride.objects.exists()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"check_code": "nonsense"}, "Select a valid choice"),
        ({"check_code": "starving", "warning": -1}, "greater than or equal to 0"),
        ({"check_code": "starving", "bad": 1}, "can&#x27;t be lower than the warning&#x27;s, 2 s"),
        ({"check_code": "starving", "warning": 20, "bad": 10}, "can&#x27;t be lower than the warning&#x27;s, 20 s"),
        ({"check_code": "bitrate_low", "bad": 80}, "can&#x27;t be higher than the warning&#x27;s, 70 %"),
        ({"check_code": "rtt_high", "bad": 500}, "no error level"),
    ],
)
def test_what_makes_no_sense_is_refused(admin_client: Client, stream: Stream, row: dict[str, Any], words: str) -> None:
    answer = post(admin_client, stream, {"enabled": "on"} | row)
    assert words in answer.content.decode()
    assert not HealthOverride.objects.exists()


def test_limits_of_two_figures_are_not_compared(admin_client: Client, stream: Stream) -> None:
    """Of bitrate_high the warning is of the target, the error of the key's limit."""
    assert post(admin_client, stream, {"check_code": "bitrate_high", "enabled": "on", "bad": 101}).status_code == 302


def test_the_model_knows_the_checks_too(stream: Stream) -> None:
    with pytest.raises(ValidationError, match="no such check"):
        HealthOverride(stream=stream, check_code="nonsense").full_clean()


@pytest.mark.parametrize(("role", "may"), [("key manager", True), ("operator", False)])
def test_who_may_change_a_stream_may_say_how_it_is_judged(client: Client, stream: Stream, role: str, may: bool) -> None:
    user = User.objects.create_user("someone", is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    client.force_login(user)
    answer = client.get(reverse("admin:ingest_stream_change", args=[stream.pk]))
    assert ("health_overrides-__prefix__-check_code" in answer.content.decode()) == may


@pytest.mark.django_db(transaction=True)
async def test_a_live_stream_is_judged_by_what_is_set_meanwhile(node: NodeApp, key: NewKey) -> None:
    encoder, session_id = await published(key)
    await is_up()
    rule = await HealthOverride.objects.acreate(stream_id=key.key.stream_id, check_code="starving", warning=20)
    told = await drop_after_ticks(node)
    assert told == {
        "type": "node.judge",
        "session_id": session_id,
        "health": {"starving": {"enabled": True, "warning": 20.0, "bad": None, "hold_s": None}},
    }
    await rule.adelete()
    assert (await drop_after_ticks(node))["health"] == {}
    await encoder.disconnect()
