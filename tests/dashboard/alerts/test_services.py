"""Services on their pages: made, tried, chosen in rules, and what is said of them, without their secrets."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.models import AlertRule
from ingest.delivery import engine, services
from ingest.models import AuditEntry, Delivery, Service
from tests.dashboard.alerts.conftest import OutboxWriter
from tests.dashboard.alerts.test_alerts import run
from tests.dashboard.conftest import api_token, audited, lacks, text_of
from tests.receivers import HttpReceiver, answer

pytestmark = pytest.mark.django_db

URL = "https://hooks.slack.com/services/T01ABCDEF/B01ABCDEF/k3Qz7Lm2Rt5Wx8Yb1Nc4Vd6F"
SECRET = URL.rpartition("/")[2]
SLACK = {"name": "#ops", "url": URL, "enabled": "on"}
NTFY = {"name": "phone", "topic": "studio-alerts-x7Q2", "token": "tk_k3Qz7Lm2Rt5W", "enabled": "on"}


def create(client: Client, kind: str, **values: str) -> Any:
    return client.post(reverse("dashboard:service-create-kind", args=[kind]), values)


@pytest.fixture
def phone(receiver: HttpReceiver, admin: Client, settings: Any) -> Service:
    """An ntfy server on loopback."""
    settings.WEBHOOK_PRIVATE = True
    assert create(admin, "ntfy", **NTFY, server=receiver.url.removesuffix("/hook")).status_code == 302
    return Service.objects.get()


@pytest.mark.both_forms
def test_service_is_created_changed_and_deleted_without_showing_its_secret(admin: Client, viewer: Client) -> None:
    assert lacks(text_of(admin, reverse("dashboard:service-create")), "Slack", "PagerDuty", "ntfy") == []
    form = text_of(admin, reverse("dashboard:service-create-kind", args=["slack"]))
    assert lacks(form, "Incoming Webhooks", "https://hooks.slack.com/services/T000/B000/XXXX") == []
    made = create(admin, "slack", **SLACK)
    service = Service.objects.get()
    page = reverse("dashboard:service", args=[service.pk])
    assert made["Location"] == page
    assert services.values_of(service) == {"url": URL}
    texts = [text_of(admin, page), text_of(admin, "/alerts/"), text_of(viewer, "/alerts/")]
    api = text_of(viewer, "/api/v1/services")
    for text in (*texts, api):
        assert "Vd6F" in text
        assert SECRET not in text
    assert "Saved, ending in Vd6F. Leave it empty to keep it." in texts[0]
    assert admin.post(page, {"name": "#night", "url": "", "enabled": "on"}).status_code == 302
    service.refresh_from_db()
    assert (service.name, services.values_of(service)) == ("#night", {"url": URL})
    assert admin.post(reverse("dashboard:service-delete", args=[service.pk])).status_code == 302
    assert not Service.objects.exists()
    assert audited("action", "target") == [
        ("service.create", "#ops"),
        ("service.change", "#night"),
        ("service.delete", "#night"),
    ]
    assert SECRET not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        ("slack", {"url": "https://example.org/hook"}, "This is no Webhook URL of Slack&#x27;s."),
        ("slack", {"url": f"{URL}?template=file:///etc/passwd"}, "This is no Webhook URL of Slack&#x27;s."),
        ("slack", {"url": ""}, "This field is required."),
        ("telegram", {"token": "123456789:AAF_k3Qz7Lm2Rt5Wx8Yb1Nc4V", "chat": "ops"}, "This is no Chat ID of Telegram"),
        ("ntfy", {"server": "http://127.0.0.1:9", "topic": "alerts"}, "RTMPWEB_WEBHOOK_PRIVATE=1 allows those."),
        ("ntfy", {"server": "https://[::1", "topic": "alerts"}, "Enter the server&#x27;s host"),
        ("ntfy", {"server": "https://ntfy.example:99999", "topic": "alerts"}, "Enter the server&#x27;s host"),
        ("pagerduty", {"key": "a" * 32, "region": "asia"}, "Select a valid choice."),
    ],
)
def test_invalid_service_is_refused_with_a_reason(admin: Client, kind: str, values: dict[str, str], words: str) -> None:
    refused = create(admin, kind, name="x", **values)
    assert refused.status_code == 422
    assert words in refused.content.decode()
    assert not Service.objects.exists()


def test_unknown_service_kind_is_404(admin: Client) -> None:
    assert create(admin, "carrier-pigeon", name="x").status_code == 404


def test_a_saved_token_does_not_go_to_another_server(admin: Client, phone: Service, settings: Any) -> None:
    page = reverse("dashboard:service", args=[phone.pk])
    moved = {"name": "phone", "server": "https://evil.example.org", "topic": "", "token": "", "enabled": "on"}
    refused = admin.post(page, moved)
    assert refused.status_code == 422
    assert "The server is another: enter the topic, and the access token, again." in refused.content.decode()
    assert admin.post(page, moved | {"topic": "mine"}).status_code == 302
    phone.refresh_from_db()
    assert services.values_of(phone) == {"server": "https://evil.example.org", "topic": "mine"}


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (answer(200, b"{}"), "Delivered in 0.4 s."),
        (answer(403, b'{"error": "forbidden"}'), "ntfy answered 403 (forbidden): the topic needs an access token"),
    ],
)
def test_test_message_shows_delivery_result_on_the_service_page(
    admin: Client, phone: Service, receiver: HttpReceiver, behaviour: Any, words: str
) -> None:
    receiver.behaviours = [behaviour]
    page = reverse("dashboard:service", args=[phone.pk])
    assert admin.post(reverse("dashboard:service-test", args=[phone.pk]))["Location"] == page
    assert "On its way." in text_of(admin, page)
    assert engine.deliver("service", phone.pk) == 1
    row = Delivery.objects.get()
    assert row.state in ("done", "dead")
    assert row.duration_ms is not None
    Delivery.objects.update(duration_ms=400)
    assert lacks(text_of(admin, page), "Test message", words) == []
    assert audited("action") == ["service.create", "service.test"]
    again = text_of(admin, "/alerts/deliveries/?service=phone")
    assert words in again


def test_disabled_service_sends_no_test_message(admin: Client, phone: Service) -> None:
    Service.objects.update(enabled=False)
    page = admin.post(reverse("dashboard:service-test", args=[phone.pk]), follow=True).content.decode()
    assert "phone is off: nothing is sent to it." in page
    assert not Delivery.objects.exists()


@pytest.mark.both_forms
def test_rule_notifies_its_service_of_opening_and_clearing(
    admin: Client, phone: Service, receiver: HttpReceiver, publisher: OutboxWriter
) -> None:
    rule = {"name": "Night", "enabled": "on", "kinds": ["health"], "level": "bad", "time_zone": "UTC"}
    more = {"delay_s": "0", "repeat_min": "0", "services": [str(phone.pk)]}
    assert admin.post(reverse("dashboard:alert-rule-create"), rule | more).status_code == 302
    assert AlertRule.objects.get().services.get() == phone
    assert "phone" in text_of(admin, "/alerts/")
    publisher.opened()
    run()
    engine.deliver("service", phone.pk)
    publisher.cleared()
    run()
    engine.deliver("service", phone.pk)
    assert [row.state for row in Delivery.objects.filter(service=phone)] == ["done", "done"]
    opened, cleared = (got.body.decode() for got in receiver.got)
    assert "live/cam-1" in opened
    assert "Resolved: live/cam-1" in cleared


def test_api_lists_services_without_secrets(client: Client, phone: Service) -> None:
    (row,) = client.get("/api/v1/services", headers=api_token("viewer")).json()["items"]
    assert (row["name"], row["kind"], row["enabled"], row["last_state"]) == ("phone", "ntfy", True, None)
    assert "studio-alerts" not in str(row)


def test_short_service_secret_is_not_shown_even_partly(admin: Client) -> None:
    assert create(admin, "ntfy", name="phone", server="https://ntfy.sh", topic="ops7").status_code == 302
    page = text_of(admin, reverse("dashboard:service", args=[Service.objects.get().pk]))
    assert "ops7" not in page
    assert "Saved. Leave it empty to keep it." in page
