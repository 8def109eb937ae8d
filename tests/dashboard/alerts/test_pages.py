"""The pages of alerts, webhooks and deliveries, and the API of the same: what is shown, changed, and to whom."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard import tasks
from dashboard.models import Alert, AlertRule
from ingest.delivery.webhook import secret_of
from ingest.models import AuditEntry, Delivery, Stream, Webhook
from ingest.tasks import deliver
from tests.dashboard.alerts.conftest import live
from tests.dashboard.conftest import api_token, audited, lacks, make_session, put_node, snapshot, text_of

pytestmark = pytest.mark.django_db

HOOK = "https://hooks.example.org/T0KEN"
WEBHOOK = {"name": "graphics", "url": HOOK, "enabled": "on"}
RULE = {
    "name": "Night",
    "enabled": "on",
    "kinds": ["health"],
    "level": "bad",
    "time_zone": "Europe/Berlin",
    "delay_s": "30",
    "repeat_min": "0",
    "emails": "a@example.org",
}


@pytest.fixture
def alert(stream: Stream) -> Alert:
    now = timezone.now()
    rule = AlertRule.objects.create(name="Night", emails="a@example.org")
    return Alert.objects.create(
        rule=rule,
        subject=stream.path,
        stream=stream,
        session=make_session(stream),
        check_code="starving",
        level="bad",
        title="Nothing has arrived for 14 s (5 s at most).",
        opened_at=now - timedelta(minutes=5),
        due_at=now,
        told=1,
        told_at=now,
    )


def test_a_viewer_sees_alerts_rules_and_webhooks_but_no_secret(viewer: Client, alert: Alert) -> None:
    Webhook.objects.create(name="graphics", url=HOOK)
    text = text_of(viewer, "/alerts/")
    assert lacks(text, "Nothing has arrived for 14 s (5 s at most).", f"/sessions/{alert.session_id}/") == []
    assert "hooks.example.org" in text
    assert "T0KEN" not in text
    assert "Make a rule" not in text
    assert lacks(text, "Not delivered: no mail server is set (RTMPWEB_EMAIL_URL)", "Not yet") == []


def delivery(alert: Alert, number: int, state: str, **fields: Any) -> Delivery:
    about = {"channel": "email", "address": "a@example.org", "kind": "alert.opened", "series": str(number)}
    return Delivery.objects.create(
        **{"once": str(number), "number": number, "about": f"alert:{alert.pk}", "state": state, **about, **fields}
    )


def cell(text: str, alert: Alert, head: str) -> str:
    """The words of an alert's cell."""
    row = text.partition(f'data-alert="{alert.pk}"')[2].partition("</tr>")[0]
    return " ".join(
        re.sub(r"<[^>]+>", " ", row.partition(f'data-l="{head}"')[2].partition(">")[2].partition("</td")[0]).split()
    )


def test_alert_page_counts_queued_delivered_and_failed_notifications(
    viewer: Client, client: Client, alert: Alert, settings: Any
) -> None:
    delivery(alert, 1, "waiting")
    notified = cell(text_of(viewer, "/alerts/"), alert, "Notified")
    assert notified == "1 queued Not delivered: no mail server is set (RTMPWEB_EMAIL_URL)."
    settings.EMAIL_URL = "smtp://127.0.0.1:9"
    assert cell(text_of(viewer, "/alerts/"), alert, "Notified") == "1 queued"
    delivery(alert, 2, "done", ended_at=timezone.now())
    delivery(alert, 3, "dead", error="The mail server refuses the address: no such user.")
    notified = cell(text_of(viewer, "/alerts/"), alert, "Notified").replace("\u00a0", " ")
    assert re.fullmatch(
        r"1 delivered, last \d s ago 1 queued 1 failed "
        r"Not delivered: the mail server refuses the address: no such user\.",
        notified,
    )
    assert "Not delivered: no mail server" not in text_of(viewer, "/alerts/")
    found = client.get("/api/v1/alerts", headers=api_token()).json()["items"][0]
    assert (found["delivered"], found["queued"], found["failed"], found["outcome"]) == (1, 1, 1, "")


@pytest.mark.parametrize(
    ("outcome", "chip"), [("fixed", "Resolved"), ("dropped", "Dropped, not fixed"), ("withdrawn", "No longer watched")]
)
def test_past_alert_shows_its_outcome(viewer: Client, alert: Alert, outcome: str, chip: str) -> None:
    Alert.objects.update(cleared_at=timezone.now(), outcome=outcome, cleared_why="So it was.")
    text = text_of(viewer, "/alerts/")
    assert cell(text, alert, "How it ended") == f"{chip} So it was."
    assert cell(text, alert, "Notified") == "Nobody"


def test_wake_preset_fills_the_rule_form(admin: Client) -> None:
    assert "?preset=wake" in text_of(admin, "/alerts/")
    User.objects.filter(username="ada").update(email="ada@example.org")
    text = text_of(admin, "/alerts/rules/create", preset="wake")
    for kind, is_chosen in (("health", True), ("ended", True), ("not_live", False)):
        assert bool(re.search(rf'value="{kind}"[^>]* checked', text)) == is_chosen
    assert lacks(text, "ada@example.org", 'value="What would wake you"', '<option value="bad" selected>') == []


def test_rule_saved_while_an_issue_is_open_notifies_it_once(admin: Client, stream: Stream) -> None:
    publisher = live(stream)
    publisher.opened()
    tasks.handle_events(timezone.now())
    assert admin.post(reverse("dashboard:alert-rule-create"), RULE | {"delay_s": "0"}).status_code == 302
    tasks.take_outbox()
    assert Delivery.objects.get().kind == "alert.opened"
    tasks.take_outbox()
    admin.post(reverse("dashboard:alert-rule", args=[AlertRule.objects.get().pk]), RULE | {"level": "warning"})
    tasks.take_outbox()
    assert Delivery.objects.count() == 1


def test_a_webhook_s_secret_is_shown_once(admin: Client) -> None:
    answer = admin.post(reverse("dashboard:webhook-create"), WEBHOOK)
    webhook = Webhook.objects.get()
    assert secret_of(webhook) in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    for text in (text_of(admin, "/alerts/"), text_of(admin, f"/alerts/webhooks/{webhook.pk}/")):
        assert secret_of(webhook) not in text
    rotated = admin.post(reverse("dashboard:webhook-rotate", args=[webhook.pk])).content.decode()
    former = secret_of(webhook)
    webhook.refresh_from_db()
    assert secret_of(webhook) != former
    assert secret_of(webhook) in rotated
    entries = audited("actor", "action", "target")
    assert entries == [("ada", "webhook.create", "graphics"), ("ada", "webhook.rotate", "graphics")]
    assert secret_of(webhook) not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.org/", "example.org", "javascript:alert(1)", "file:///etc/passwd", ""),
        *("http://127.0.0.1:9/", "http://localhost/", "http://[::1]/", "https://10.0.0.7/hook"),
    ],
)
def test_webhook_with_invalid_or_private_url_is_refused(admin: Client, url: str) -> None:
    answer = admin.post(reverse("dashboard:webhook-create"), WEBHOOK | {"url": url})
    assert answer.status_code == 422
    assert not Webhook.objects.exists()


@pytest.mark.both_forms
def test_a_rule_is_made_changed_and_deleted(admin: Client, stream: Stream) -> None:
    chosen = {"checks": ["starving", "gop_long"], "days": ["5", "6"], "streams": [stream.pk]}
    hours = {"from_time": "22:00", "until_time": "06:00"}
    assert admin.post(reverse("dashboard:alert-rule-create"), RULE | chosen | hours).status_code == 302
    rule = AlertRule.objects.get()
    assert (rule.checks, rule.days, rule.streams.get()) == (["starving", "gop_long"], [5, 6], stream)
    text = text_of(admin, "/alerts/")
    assert "Sat, Sun 22:00 to 06:00 Europe/Berlin" in text
    shown = text_of(admin, f"/alerts/rules/{rule.pk}/")
    assert re.search(r'value="starving"[^>]* checked', shown)
    assert re.search(r'value="5"[^>]* checked', shown)
    assert 'value="22:00"' in shown
    admin.post(reverse("dashboard:alert-rule", args=[rule.pk]), RULE | {"name": "Day"})
    rule.refresh_from_db()
    assert (rule.name, rule.checks) == ("Day", [])
    admin.post(reverse("dashboard:alert-rule-delete", args=[rule.pk]))
    assert not AlertRule.objects.exists()
    assert audited("action") == ["alert_rule.create", "alert_rule.change", "alert_rule.delete"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"emails": ""}, "Add a recipient"),
        ({"emails": "nobody"}, "Enter a valid email address."),
        ({"emails": f"a@{'b' * 60}.{'c' * 60}.{'d' * 60}.{'e' * 60}.{'f' * 9}.org"}, "is too long"),
        ({"time_zone": "Mars/Base"}, "is no time zone"),
        ({"time_zone": "../etc/passwd"}, "is no time zone"),
        ({"kinds": ["not_live"], "days": ["6"]}, "choose the streams"),
        ({"kinds": []}, "Choose at least one."),
        ({"kinds": ["made-up"]}, "made-up is not one of the available choices"),
        ({"from_time": "22:00"}, "Hours need a beginning and an end."),
        ({"checks": ["made-up"]}, "made-up is not one of the available choices"),
        ({"delay_s": "-1"}, "greater than or equal to 0"),
    ],
)
def test_a_rule_that_makes_no_sense_says_why(admin: Client, change: dict[str, Any], words: str) -> None:
    answer = admin.post(reverse("dashboard:alert-rule-create"), RULE | change)
    assert answer.status_code == 422
    assert words in answer.content.decode()


@pytest.mark.both_forms
def test_a_delivery_that_was_given_up_is_sent_again(
    admin: Client, django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(deliver, "delay", lambda *to: sent.append(to))
    webhook = Webhook.objects.create(name="graphics", url=HOOK)
    row = Delivery.objects.create(
        once="1", number=1, webhook=webhook, kind="publish", series="s", state="dead", attempts=11, error="No."
    )
    text = text_of(admin, "/alerts/deliveries/", state="dead")
    assert lacks(text, "Given up", "Send again") == []
    with django_capture_on_commit_callbacks(execute=True):
        admin.post(reverse("dashboard:alert-delivery-again", args=[row.pk]))
    row.refresh_from_db()
    assert (row.state, row.attempts, sent) == ("waiting", 0, [("webhook", webhook.pk)])
    assert "No delivery matches" in text_of(admin, "/alerts/deliveries/", state="dead")


def test_a_test_event_is_asked_for(
    admin: Client, django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*to: object) -> None:
        raise ConnectionError("no broker")

    monkeypatch.setattr(deliver, "delay", away)
    webhook = Webhook.objects.create(name="graphics", url=HOOK)
    with django_capture_on_commit_callbacks(execute=True):
        assert admin.post(reverse("dashboard:webhook-test", args=[webhook.pk])).status_code == 302
    assert Delivery.objects.get().kind == "test"


def test_empty_pages_say_what_comes_next(admin: Client) -> None:
    text = text_of(admin, "/alerts/")
    for words in (
        "No rule is on: nobody is notified of anything.",
        "No rules yet",
        "No services yet",
        "No webhooks yet",
    ):
        assert words in text
    assert "Nothing sent yet" in text_of(admin, "/alerts/deliveries/")


def test_alert_page_without_open_alerts_still_shows_bad_streams(admin: Client, stream: Stream) -> None:
    put_node(snapshot(stream, health="bad"))
    assert "1 stream is bad now" in text_of(admin, "/alerts/")
    AlertRule.objects.create(name="Night")
    text = text_of(admin, "/alerts/")
    assert lacks(text, "No alert is open.", "1 stream is bad now") == []


@pytest.mark.both_forms
def test_api_lists_alerts_webhooks_and_deliveries_without_secrets(client: Client, alert: Alert) -> None:
    webhook = Webhook.objects.create(name="graphics", url=HOOK)
    Delivery.objects.create(once="1", number=1, webhook=webhook, kind="publish", series="s", error="No.", attempts=1)
    headers = api_token("viewer")

    def get(path: str, **query: str) -> Any:
        answer = client.get(f"/api/v1/{path}", query, headers=headers)
        assert answer.status_code == 200, answer.content
        assert b"T0KEN" not in answer.content
        assert secret_of(webhook).encode() not in answer.content
        return answer.json()

    (found,) = get("alerts", open="true", check="starving")["items"]
    assert (found["subject"], found["rule"], found["session_id"]) == ("live/cam-1", "Night", str(alert.session_id))
    assert get("alerts", open="false")["count"] == 0
    (hook,) = get("webhooks")["items"]
    assert (hook["name"], hook["host"]) == ("graphics", "hooks.example.org")
    assert (hook["waiting"], hook["last_error"]) == (1, "No.")
    (row,) = get("deliveries", state="waiting", webhook="graphics")["items"]
    assert (row["kind"], row["to"], row["attempts"]) == ("publish", "graphics", 1)
    assert get("deliveries", state="dead")["count"] == 0
