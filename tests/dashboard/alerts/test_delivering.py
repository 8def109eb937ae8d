"""Webhooks: signed, in order, once at a time, tried again, and never to where they must not go."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from dashboard import tasks
from dashboard.alerts import messages
from ingest import addresses
from ingest.delivery import engine
from ingest.delivery import webhook as webhook_channel
from ingest.delivery.channel import Answer
from ingest.delivery.webhook import secret_of
from ingest.models import Delivery, DeliveryCount, OutboxEvent, Stream, Webhook
from ingest.tasks import deliver
from tests.dashboard.alerts.conftest import live
from tests.dashboard.conftest import make_stream
from tests.receivers import HttpReceiver, answer

pytestmark = pytest.mark.django_db(transaction=True)


def take() -> None:
    tasks.handle_events(timezone.now())


def begin(*streams: Stream) -> None:
    """That each is published, taken for its receivers."""
    for stream in streams:
        live(stream).publish()
    take()


def delivered(webhook: Webhook, stream: Stream) -> Delivery:
    begin(stream)
    engine.deliver("webhook", webhook.pk)
    return Delivery.objects.get()


def by_threads(number: int, work: Callable[[], object]) -> None:
    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)


def names(receiver: HttpReceiver) -> list[str]:
    return [json.loads(got.body)["name"] for got in receiver.got]


def soon(**fields: Any) -> None:
    """What waits is due now."""
    Delivery.objects.filter(state="waiting").update(next_at=timezone.now(), **fields)


def tries() -> dict[tuple[str, str], int]:
    """How often what came of a message, in all."""
    return {(row.to, row.outcome): row.count for row in DeliveryCount.objects.all()}


def kinds(receiver: HttpReceiver) -> list[str]:
    return [json.loads(got.body)["kind"] for got in receiver.got]


def test_an_event_arrives_signed_and_whole(webhook: Webhook, receiver: HttpReceiver, stream: Stream) -> None:
    event = live(stream).publish()
    take()
    assert engine.deliver("webhook", webhook.pk) == 1
    (got,) = receiver.got
    assert got.is_signed_with(secret_of(webhook))
    assert not got.is_signed_with("another")
    body = json.loads(got.body)
    assert body == {**event.payload, "url": f"http://127.0.0.1:8000/sessions/{event.session_id}/"}
    assert got.headers["X-Rtmpweb-Id"] == str(event.pk)
    assert got.headers["X-Rtmpweb-Event"] == "publish"
    row = Delivery.objects.get()
    assert (row.state, row.attempts, row.status_code, row.response) == ("done", 1, 200, "ok")


@pytest.mark.stores
def test_an_event_is_taken_once(webhook: Webhook, stream: Stream) -> None:
    told = live(stream)
    for _ in range(3):
        told.opened()
    by_threads(3, take)
    take()
    assert Delivery.objects.count() == 3


@pytest.mark.both_forms
def test_webhook_filters_select_by_kind_stream_application_and_enabled(webhook: Webhook, stream: Stream) -> None:
    other = Webhook.objects.create(name="other", url=webhook.url, kinds=["unpublish"])
    elsewhere = Webhook.objects.create(name="elsewhere", url=webhook.url)
    elsewhere.streams.add(Stream.objects.create(application=stream.application, name="cam-9"))
    here = Webhook.objects.create(name="here", url=webhook.url)
    here.applications.add(stream.application)
    Webhook.objects.create(name="off", url=webhook.url, enabled=False)
    told = live(stream)
    told.publish()
    told.end()
    take()
    found = {name: Delivery.objects.filter(webhook__name=name).count() for name in ("graphics", "other", "here")}
    assert found == {"graphics": 2, "other": 1, "here": 2}
    assert not elsewhere.deliveries.exists()
    assert other.deliveries.get().kind == "unpublish"
    assert not Delivery.objects.filter(webhook__name="off").exists()


@pytest.mark.both_forms
def test_a_failure_is_tried_again_and_keeps_its_id(webhook: Webhook, receiver: HttpReceiver, stream: Stream) -> None:
    receiver.behaviours = [answer(500, b"broken"), answer(200)]
    row = delivered(webhook, stream)
    assert (row.state, row.status_code, row.error, row.response) == ("waiting", 500, "It answered 500.", "broken")
    assert 7 < (row.next_at - timezone.now()).total_seconds() < 13
    assert engine.deliver("webhook", webhook.pk) == 0
    soon()
    assert engine.deliver("webhook", webhook.pk) == 1
    row.refresh_from_db()
    assert (row.state, row.attempts, row.error) == ("done", 2, "")
    assert tries() == {("webhook", "failed"): 1, ("webhook", "done"): 1}
    assert receiver.got[0].headers["X-Rtmpweb-Id"] == receiver.got[1].headers["X-Rtmpweb-Id"]


@pytest.mark.both_forms
def test_failed_delivery_holds_later_events_of_its_stream_but_not_other_streams(
    webhook: Webhook, receiver: HttpReceiver, stream: Stream
) -> None:
    """The end of one session, and the begin of the next."""
    receiver.behaviours = [answer(503), answer(200)]
    told = live(stream)
    told.publish()
    take()
    engine.deliver("webhook", webhook.pk)
    told.end()
    live(stream).publish()
    live(make_stream("cam-2")).publish()
    take()
    engine.deliver("webhook", webhook.pk)
    assert names(receiver) == ["cam-1", "cam-2"]
    soon()
    engine.deliver("webhook", webhook.pk)
    assert names(receiver) == ["cam-1", "cam-2", *["cam-1"] * 3]
    assert kinds(receiver)[2:] == ["publish", "unpublish", "publish"]
    assert [json.loads(got.body)["sequence"] for got in receiver.got] == [1, 1, 1, 2, 3]


@pytest.mark.both_forms
def test_clock_set_back_keeps_the_order_of_deliveries(
    webhook: Webhook, receiver: HttpReceiver, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers', or the media node's."""
    told = live(stream)
    told.publish()
    take()
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)
    told.end(at=timezone.now() - timedelta(hours=1))
    live(stream).publish(at=timezone.now() - timedelta(minutes=59))
    take()
    engine.deliver("webhook", webhook.pk)
    assert kinds(receiver) == ["publish", "unpublish", "publish"]


@pytest.mark.both_forms
def test_delivery_is_given_up_after_a_day_and_can_be_requeued(
    webhook: Webhook, receiver: HttpReceiver, stream: Stream
) -> None:
    receiver.behaviours = [answer(410)]
    told = live(stream)
    told.publish()
    told.end()
    take()
    for _ in range(len(engine.DELAYS_S) + 1):
        soon()
        engine.deliver("webhook", webhook.pk)
    first = Delivery.objects.get(kind="publish")
    assert (first.state, first.attempts) == ("dead", len(engine.DELAYS_S) + 1)
    assert 20 * 3600 < sum(engine.DELAYS_S) < 28 * 3600
    receiver.behaviours = [answer(204)]
    assert engine.requeue(Delivery.objects.filter(pk=first.pk)) == 1
    soon()
    engine.deliver("webhook", webhook.pk)
    assert set(Delivery.objects.values_list("state", flat=True)) == {"done"}
    failed = len(engine.DELAYS_S) + 1  # The end's first, when its begin was given up.
    assert tries() == {("webhook", "failed"): failed, ("webhook", "dead"): 1, ("webhook", "done"): 2}


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_receiver_that_takes_its_time_is_given_up_on(
    webhook: Webhook, receiver: HttpReceiver, stream: Stream, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(webhook_channel.post, "__kwdefaults__", {"timeout_s": 0.5})
    receiver.behaviours = [getattr(receiver, how)]
    begin(stream, make_stream("cam-2"))
    assert engine.deliver("webhook", webhook.pk) == 2
    for row in Delivery.objects.all():
        assert row.error == "No answer within 0.5 s."
        assert row.duration_ms is not None
        assert row.duration_ms < 3000


def test_endless_response_is_cut_to_its_first_512_characters(
    webhook: Webhook, receiver: HttpReceiver, stream: Stream
) -> None:

    def flood(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            while not receiver.released.is_set():
                handler.wfile.write(b"y" * 65536)

    receiver.behaviours = [flood]
    row = delivered(webhook, stream)
    assert (row.state, row.response) == ("done", "y" * 512)


def test_redirects_are_not_followed(webhook: Webhook, receiver: HttpReceiver, stream: Stream) -> None:
    receiver.behaviours = [answer(302, Location=receiver.url)]
    row = delivered(webhook, stream)
    assert (row.state, row.status_code, len(receiver.got)) == ("waiting", 302, 1)
    assert "redirects" in row.error


@pytest.mark.both_forms
def test_unreachable_receiver_is_backed_off_and_its_deliveries_postponed(webhook: Webhook) -> None:
    Webhook.objects.filter(pk=webhook.pk).update(url="http://127.0.0.1:9/")
    begin(*(make_stream(f"cam-{number}") for number in range(webhook_channel.WebhookChannel.at_once + 3)))
    assert engine.deliver("webhook", webhook.pk) == webhook_channel.WebhookChannel.at_once
    assert engine.deliver("webhook", webhook.pk) == 0
    untried = Delivery.objects.filter(attempts=0)
    assert untried.count() == 3
    assert all(row.next_at > timezone.now() + timedelta(seconds=5) for row in untried)


@pytest.mark.stores
def test_two_workers_never_send_the_same_at_the_same_time(webhook: Webhook, receiver: HttpReceiver) -> None:
    begin(*(make_stream(f"cam-{number}") for number in range(10)))
    by_threads(4, lambda: engine.deliver("webhook", webhook.pk))
    ids = [got.headers["X-Rtmpweb-Id"] for got in receiver.got]
    assert len(ids) == len(set(ids)) == 10
    assert set(Delivery.objects.values_list("state", "attempts")) == {("done", 1)}


@pytest.mark.stores
def test_a_worker_whose_claim_ran_out_changes_nothing(webhook: Webhook, stream: Stream) -> None:
    begin(stream)
    mine = Delivery.objects.get()
    assert engine._claim(mine, 60)
    assert (engine.receivers(timezone.now()), engine.deliver("webhook", webhook.pk)) == ([], 0)
    Delivery.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
    other = Delivery.objects.get()
    assert engine._claim(other, 60)
    engine._settle(mine, Answer(200), timezone.now())
    assert Delivery.objects.get().claim == other.claim
    assert Delivery.objects.get().state == "waiting"


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1"),
        *("::1", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::"),
        *("64:ff9b:1::7f00:1", "::7f00:1", "::ffff:0:7f00:1", "fec0::1", "192.0.0.8", "192.88.99.1"),
    ],
)
def test_addresses_of_one_s_own_network_are_not_public(address: str) -> None:
    assert not addresses.is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34"])
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert addresses.is_public(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
def test_private_addresses_are_refused_unless_the_setting_allows_them(
    webhook: Webhook, receiver: HttpReceiver, stream: Stream, settings: Any, host: str
) -> None:
    settings.WEBHOOK_PRIVATE = False
    webhook.url = receiver.url.replace("127.0.0.1", host)
    webhook.save()
    engine.enqueue([messages.test_delivery(webhook)])
    engine.deliver("webhook", webhook.pk)
    assert "RTMPWEB_WEBHOOK_PRIVATE=1" in Delivery.objects.get().error
    assert not receiver.got
    settings.WEBHOOK_PRIVATE = True
    Delivery.objects.update(next_at=timezone.now())
    engine.deliver("webhook", webhook.pk)
    assert kinds(receiver) == ["test"]
    assert receiver.got[0].is_signed_with(secret_of(webhook))


def test_a_new_salt_makes_a_new_secret_and_none_is_kept(webhook: Webhook) -> None:
    former = secret_of(webhook)
    webhook.salt = "another"
    webhook.save()
    assert secret_of(webhook) != former
    assert former[6:] not in str(Webhook.objects.values())


def test_beat_s_task_has_everything_delivered(
    webhook: Webhook, receiver: HttpReceiver, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "delay", deliver)
    told = live(stream)
    told.publish()
    told.end()
    tasks.take_outbox()
    assert kinds(receiver) == ["publish", "unpublish"]


@pytest.mark.both_forms
def test_pruning_removes_old_deliveries_and_events_of_ended_sessions(
    webhook: Webhook, receiver: HttpReceiver, stream: Stream, settings: Any
) -> None:
    settings.KEEP_HOOKS_DAYS = 7
    live(stream).publish(at=timezone.now() - timedelta(days=8))
    take()
    engine.deliver("webhook", webhook.pk)
    Delivery.objects.update(ended_at=timezone.now() - timedelta(days=8))
    live(stream).publish()
    take()
    long = live(make_stream("cam-2")).publish(at=timezone.now() - timedelta(days=30))
    ended = live(make_stream("cam-3"), ended_ago_s=9 * 86_400).publish(at=timezone.now() - timedelta(days=30))
    tasks.prune_told()
    assert Delivery.objects.get().state == "waiting"
    kept = set(OutboxEvent.objects.values_list("pk", flat=True))
    assert long.pk in kept, "its session goes on, and its end is to be told"
    assert ended.pk not in kept
