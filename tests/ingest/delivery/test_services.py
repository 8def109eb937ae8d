"""Services, over TLS to stand-ins on loopback that have the services' names: what each is sent, as its own documents
have it, and what is said where it does not arrive.
"""

import json
import logging
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.utils import timezone

from ingest.delivery import engine, kinds, services, webhook
from ingest.delivery.kinds import MailContent
from ingest.delivery.service_kinds import KINDS
from ingest.models import Delivery, Service
from ingest.services.sealing import UNREADABLE
from tests.certificates import make_pair
from tests.receivers import Got, HttpReceiver, answer, http_receiver

pytestmark = [pytest.mark.django_db, pytest.mark.both_forms]

AZURE = "prod-07.westeurope.logic.azure.com"
HOSTS = ("hooks.slack.com", "discord.com", AZURE, "api.telegram.org", "events.pagerduty.com", "events.eu.pagerduty.com")
SLACK = "T01ABCDEF/B01ABCDEF/k3Qz7Lm2Rt5Wx8Yb1Nc4Vd6F"
TELEGRAM = "123456789:AAF_k3Qz7Lm2Rt5Wx8Yb1Nc4Vd6Fg9Hj0"
SIG = "k3Qz7Lm2Rt5Wx8Yb1Nc4Vd6Fg9Hj0Kp2Qs4Uw6Xy8Za"
KEY = "0123456789abcdef0123456789abcdef"
INVOKE = "/workflows/4a5b6c7d8e/triggers/manual/paths/invoke"
VALUES: dict[str, dict[str, str]] = {
    "slack": {"url": f"https://hooks.slack.com/services/{SLACK}"},
    "discord": {"url": "https://discord.com/api/webhooks/112233445566/k3Qz7Lm2Rt5Wx8Yb-1Nc4Vd6Fg9Hj0_Kp2Qs4"},
    "teams": {
        "url": f"https://{AZURE}:443{INVOKE}?api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig={SIG}"
    },
    "telegram": {"token": TELEGRAM, "chat": "-1001234567890"},
    "pagerduty": {"key": KEY, "region": "eu"},
    "ntfy": {"server": "https://ntfy.example.org:8443", "topic": "studio-alerts-x7Q2", "token": "tk_k3Qz7Lm2Rt5W"},
}
SECRETS = {
    "slack": SLACK,
    "discord": "k3Qz7Lm2Rt5Wx8Yb-1Nc4Vd6Fg9Hj0_Kp2Qs4",
    "teams": SIG,
    "telegram": TELEGRAM,
    "pagerduty": KEY,
    "ntfy": "studio-alerts-x7Q2",
}
SUBJECT = "Bad: live/arena: Nothing received for 7 s"
BRIEF = "Check that the encoder is running, then its uplink.\nHappened 12:00:00 UTC, 1 Mar; still open at 12:01:00 UTC."
TITLE = f"\N{NO ENTRY} {SUBJECT}"
URL = "https://live.example.org/streams/live/arena/"
TEXT = f"{BRIEF}\n{URL}"


@pytest.fixture(autouse=True)
def alerts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind whose words are those of the row's body."""

    def words(row: Delivery) -> MailContent:
        return MailContent(row.body["subject"], "", "", row.body["brief"], row.body["level"])

    kinds.kind_of(Delivery(kind="alert.opened"))  # Finds those that there are.
    monkeypatch.setitem(kinds._registered, "alert", kinds.Kind("alert", words))


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[HttpReceiver]:
    """Has the services' names, with a certificate for them; each name leads to it, whatever the port."""
    pair = make_pair(tmp_path, names=(*HOSTS, "ntfy.example.org"))
    settings.WEBHOOK_PRIVATE = True
    monkeypatch.setattr(webhook, "tls_context", pair.client)
    with http_receiver(pair.server()) as receiver:
        lead_to(monkeypatch, "127.0.0.1", receiver.port)
        yield receiver


def lead_to(monkeypatch: pytest.MonkeyPatch, address: str, port: int) -> None:
    found, send = socket.getaddrinfo, httpx.AsyncHTTPTransport.handle_async_request

    def look_up(host: Any, *rest: Any, **more: Any) -> Any:
        return found(address if host in (*HOSTS, "ntfy.example.org") else host, *rest, **more)

    async def to_it(self: Any, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(port=port)
        return await send(self, request)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", to_it)


def make(kind: str, **values: str) -> Service:
    service = Service(name=f"#ops {kind}", kind=kind)
    services.keep(service, VALUES[kind] | values)
    service.save()
    return service


def tell(service: Service, kind: str = "alert.opened", **alert: Any) -> Delivery:
    about = alert.pop("about", "alert:5")
    body = {"subject": SUBJECT, "brief": BRIEF, "level": "bad", "url": URL} | alert
    if kind == services.TEST:
        body = {"kind": kind, "service": service.name}
    row = Delivery(
        once=f"{kind}{timezone.now()}", channel="service", service=service, kind=kind, body=body, about=about
    )
    row.series = row.once
    engine.enqueue([row])
    assert engine.receivers(timezone.now()) == [("service", service.pk)]
    assert engine.deliver("service", service.pk) == 1
    return Delivery.objects.get(pk=row.pk)


def sent(receiver: HttpReceiver) -> tuple[Got, Any]:
    (got,) = receiver.got
    receiver.got.clear()
    return got, json.loads(got.body)


def host(got: Got) -> str:
    return got.headers["Host"]


def test_slack_is_sent_an_attachment_with_title_text_and_colour(stand_in: HttpReceiver) -> None:
    assert tell(make("slack")).state == "done"
    got, body = sent(stand_in)
    assert (host(got), got.path) == ("hooks.slack.com", f"/services/{SLACK}")
    assert body == {"mrkdwn": False, "attachments": [{"title": TITLE, "text": TEXT, "color": "#A32037"}]}


def test_discord_is_sent_title_and_text_as_content(stand_in: HttpReceiver) -> None:
    stand_in.behaviours = [answer(204)]
    assert tell(make("discord")).state == "done"
    got, body = sent(stand_in)
    assert (host(got), got.path) == ("discord.com", VALUES["discord"]["url"].removeprefix("https://discord.com"))
    assert body["content"].replace("\\:", ":") == f"{TITLE}\r\n{TEXT}"


def test_teams_is_sent_an_adaptive_card_with_title_and_text(stand_in: HttpReceiver) -> None:
    stand_in.behaviours = [answer(202)]
    assert tell(make("teams")).state == "done"
    got, body = sent(stand_in)
    assert host(got) == f"{AZURE}:443"
    assert got.path == f"{INVOKE}?api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig={SIG}"
    (card,) = body["attachments"]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert [each["text"] for each in card["content"]["body"]] == [TITLE, TEXT]


def test_telegram_is_sent_an_html_message_to_the_chat(stand_in: HttpReceiver) -> None:
    stand_in.behaviours = [answer(200, b'{"ok": true}')]
    assert tell(make("telegram")).state == "done"
    got, body = sent(stand_in)
    assert (host(got), got.path) == ("api.telegram.org", f"/bot{TELEGRAM}/sendMessage")
    assert (body["chat_id"], body["parse_mode"]) == (-1001234567890, "HTML")
    assert body["text"].replace("\r\n", "\n") == f"<b>{TITLE}</b>\n{TEXT}"


def test_pagerduty_resolves_the_incident_that_it_opened(stand_in: HttpReceiver) -> None:
    stand_in.behaviours = [answer(202)]
    service = make("pagerduty")
    assert tell(service).state == "done"
    got, body = sent(stand_in)
    assert (host(got), got.path) == ("events.eu.pagerduty.com", "/v2/enqueue")
    assert "Authorization" not in got.headers
    assert (body["routing_key"], body["event_action"], body["links"]) == (KEY, "trigger", [{"href": URL}])
    assert (body["payload"]["severity"], body["payload"]["source"]) == ("critical", "rtmpweb")
    assert body["payload"]["summary"].replace("\r\n", "\n") == f"{TITLE}\n{TEXT}"
    tell(service, "alert.repeated")
    again = sent(stand_in)[1]
    assert (again["event_action"], again["dedup_key"]) == ("trigger", body["dedup_key"])
    tell(service, "alert.cleared", level="bad")
    assert sent(stand_in)[1]["event_action"] == "trigger", "its stream dropped: it is not fixed"
    tell(service, "alert.cleared", level="over")
    assert sent(stand_in)[1] == {"routing_key": KEY, "event_action": "resolve", "dedup_key": body["dedup_key"]}
    tell(service, about="alert:6")
    assert sent(stand_in)[1]["dedup_key"] != body["dedup_key"]


def test_ntfy_is_sent_title_message_priority_and_link(stand_in: HttpReceiver) -> None:
    assert tell(make("ntfy")).state == "done"
    got, body = sent(stand_in)
    assert (host(got), got.path) == ("ntfy.example.org:8443", "/")
    assert got.headers["Authorization"] == "Bearer tk_k3Qz7Lm2Rt5W"
    assert (got.headers["X-Priority"], got.headers["X-Click"]) == ("max", URL)
    assert body == {"topic": "studio-alerts-x7Q2", "title": TITLE, "message": TEXT}


def test_message_title_has_the_sign_of_its_level(stand_in: HttpReceiver) -> None:
    service = make("ntfy")
    for level, sign, priority in (
        ("bad", "\N{NO ENTRY}", "max"),
        ("warning", "\N{WARNING SIGN}\ufe0f", "high"),
        ("over", "\N{WHITE HEAVY CHECK MARK}", None),
    ):
        tell(service, level=level)
        got, body = sent(stand_in)
        assert body["title"] == f"{sign} {SUBJECT}"
        assert got.headers.get("X-Priority") == priority
    tell(service, services.TEST)
    assert sent(stand_in)[1]["title"] == "\N{BELL} Test message"


@pytest.mark.parametrize("kind", VALUES)
def test_peer_text_in_messages_mentions_no_user_and_is_bounded(kind: str, stand_in: HttpReceiver) -> None:
    words = "@everyone <!channel> <@U123> <at>boss</at> <i>loud</i> \n\u202e" + "x" * 4000
    tell(make(kind), subject=f"live/@here {words}", brief=words)
    text = stand_in.got[0].body.decode()
    assert len(text) < 4000
    said = json.dumps(json.loads(text), ensure_ascii=False)
    for call in ("@everyone", "@here", "<!channel>", "<@U123>", "<at>", "<i>"):
        assert call not in said.replace("&lt;", "<") or kind == "slack"
    assert "<!channel>" not in said, "Slack's is escaped"


@pytest.mark.parametrize("kind", VALUES)
def test_no_secret_is_kept_readable_shown_or_logged(
    kind: str, stand_in: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "apprise")
    service, secret = make(kind), SECRETS[kind]
    stand_in.behaviours = [answer(404, f"no such thing: {secret}".encode())]
    row = tell(service)
    assert (row.state, row.attempts, row.status_code) == ("dead", 1, 404)
    kept = [str(Service.objects.filter(pk=service.pk).values()), row.error, row.response, str(row.body), repr(service)]
    assert [text for text in (*kept, caplog.text) if secret in text] == []
    assert row.response.startswith("no such thing: ")
    assert secret[-12:] not in row.response
    assert service.shown.endswith(secret[-4:]) or kind == "telegram"
    assert services.values_of(Service.objects.get()) == VALUES[kind]


REFUSALS: list[tuple[str, int, str, str]] = [
    ("slack", 404, "no_service", "Slack answered 404 (no_service): the webhook was removed, or its address is wrong."),
    (
        "discord",
        404,
        '{"message": "Unknown Webhook", "code": 10015}',
        "Discord answered 404 (Unknown Webhook): the webhook was removed, or its address is wrong.",
    ),
    ("teams", 403, "<html>", "Microsoft Teams answered 403: the workflow's URL is wrong or has expired."),
    (
        "telegram",
        400,
        '{"ok": false, "description": "Bad Request: chat not found"}',
        "Telegram answered 400 (Bad Request: chat not found): it does not accept the message.",
    ),
    (
        "pagerduty",
        400,
        '{"message": "Invalid key"}',
        "PagerDuty answered 400 (Invalid key): the integration key is wrong.",
    ),
    (
        "ntfy",
        403,
        '{"error": "forbidden"}',
        "ntfy answered 403 (forbidden): the topic needs an access token that may publish to it.",
    ),
]


@pytest.mark.parametrize(("kind", "status", "body", "words"), REFUSALS)
def test_a_refusal_is_in_words_and_final(kind: str, status: int, body: str, words: str, stand_in: HttpReceiver) -> None:
    stand_in.behaviours = [answer(status, body.encode())]
    row = tell(make(kind))
    assert (row.state, row.error) == ("dead", words)


def test_rate_limited_service_delays_all_its_messages(stand_in: HttpReceiver) -> None:
    stand_in.behaviours = [answer(429, b"", **{"Retry-After": "120"}), answer(200, b"ok")]
    service = make("slack")
    now = timezone.now()
    first = tell(service)
    assert (first.state, first.error) == ("waiting", "Slack answered 429: too many messages.")
    assert 110 < (first.next_at - now).total_seconds() < 130
    other = Delivery(once="2", channel="service", service=service, kind="alert.opened", series="2", body=first.body)
    engine.enqueue([other])
    Delivery.objects.filter(pk=first.pk).update(next_at=now)
    stand_in.behaviours = [answer(429, b"", **{"Retry-After": "120"})]
    assert engine.deliver("service", service.pk) == 1
    assert Delivery.objects.get(pk=other.pk).next_at > now


def test_an_outage_is_tried_again_but_a_test_is_not(stand_in: HttpReceiver) -> None:
    stand_in.behaviours = [answer(503, b"<html>")]
    service = make("discord")
    row = tell(service)
    assert (row.state, row.error) == ("waiting", "Discord answered 503.")
    assert tell(service, services.TEST).state == "dead"


def test_unanswered_message_times_out_and_is_retried(stand_in: HttpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    post = webhook.post

    async def soon(*given: Any, **more: Any) -> Any:
        return await post(*given, **more, timeout_s=0.5)

    monkeypatch.setattr(services, "post", soon)
    stand_in.behaviours = [stand_in.hang]
    row = tell(make("telegram"))
    assert (row.state, row.error) == ("waiting", "No answer within 0.5 s.")


def test_unresolvable_service_name_is_reported_and_retried(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    row = tell(make("slack"))
    assert row.state == "waiting"
    assert row.error == "The name hooks.slack.com can't be looked up: Name or service not known."
    assert tell(make("discord"), services.TEST).state == "dead"


def test_addresses_that_are_not_public_are_refused(stand_in: HttpReceiver, settings: Any) -> None:
    settings.WEBHOOK_PRIVATE = False
    row = tell(make("ntfy"))
    assert row.error.startswith("ntfy.example.org is an address of a private network or of this machine.")
    assert stand_in.got == []


def test_no_redirect_is_followed_and_no_proxy_used(stand_in: HttpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    stand_in.behaviours = [answer(307, b"", Location="https://127.0.0.1/elsewhere")]
    row = tell(make("ntfy"))
    assert row.error.startswith("It redirects elsewhere, which is not followed")
    assert len(stand_in.got) == 1


def test_service_unreadable_by_a_changed_pepper_is_sent_nothing(stand_in: HttpReceiver, settings: Any) -> None:
    service = make("slack")
    settings.KEY_PEPPER = "another"
    row = tell(service)
    assert (row.state, row.error) == ("dead", UNREADABLE)
    assert stand_in.got == []


def test_disabled_service_is_sent_nothing(stand_in: HttpReceiver) -> None:
    service = make("slack")
    Service.objects.update(enabled=False)
    row = Delivery(once="1", channel="service", service=service, kind="test", series="1", body={"service": "x"})
    engine.enqueue([row])
    assert engine.receivers(timezone.now()) == []
    assert engine.deliver("service", service.pk) == 0


WRONG: list[Callable[[], tuple[str, str, str]]] = [
    lambda: ("slack", "url", "https://hooks.slack.com.example.org/services/T0/B0/xx"),
    lambda: ("slack", "url", f"{VALUES['slack']['url']}?template=file:///etc/passwd"),
    lambda: ("discord", "url", f"{VALUES['discord']['url']}?format=markdown"),
    lambda: ("teams", "url", f"https://example.org{INVOKE}?sig={SIG}"),
    lambda: ("telegram", "chat", "-100, -200"),
    lambda: ("ntfy", "server", "https://user@ntfy.example.org"),
    lambda: ("ntfy", "topic", "a/b"),
]


@pytest.mark.parametrize("given", WRONG)
def test_address_of_another_host_or_with_extra_parts_is_rejected(given: Callable[[], tuple[str, str, str]]) -> None:
    kind, name, value = given()
    (field,) = (each for each in KINDS[kind].fields if each.name == name)
    assert re.fullmatch(field.pattern, VALUES[kind][name])
    assert not re.fullmatch(field.pattern, value)
