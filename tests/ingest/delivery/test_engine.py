"""The engine, whatever the channel: a channel is one class, and what kinds of messages differ in."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ingest.delivery import engine, kinds
from ingest.delivery.channel import Answer, Channel
from ingest.delivery.kinds import Kind, MailContent
from ingest.models import Delivery, DeliveryCount

pytestmark = [pytest.mark.django_db, pytest.mark.both_forms]


class Pager(Channel[str]):
    name = "pager"
    claim_s = 30.0
    sent: list[tuple[str, str]] = []
    answer = Answer(200)

    def prepare(self, row: Delivery) -> str:
        return f"{row.kind}: {row.body['words']}"

    def send(self, rows: Sequence[tuple[Delivery, str]]) -> list[Answer]:
        type(self).sent += [(row.address, message) for row, message in rows]
        return [self.answer for _ in rows]


@pytest.fixture(autouse=True)
def pager(monkeypatch: pytest.MonkeyPatch) -> type[Pager]:
    monkeypatch.setitem(engine.CHANNELS, "pager", Pager)
    monkeypatch.setattr(Pager, "sent", [])
    monkeypatch.setattr(Pager, "answer", Answer(200))
    return Pager


def message(number: int, kind: str = "alert.opened", **fields: object) -> Delivery:
    values = {"once": str(number), "channel": "pager", "address": "+41", "kind": kind, "series": str(number)}
    return Delivery(**values | {"body": {"words": f"no {number}"}} | fields)


def known(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    kinds.kind_of(message(0))  # Finds those that there are.
    monkeypatch.setitem(kinds._registered, kind.name, kind)


def test_registered_channel_class_delivers_enqueued_messages(pager: type[Pager]) -> None:
    engine.enqueue([message(1), message(2)])
    assert engine.receivers(timezone.now()) == [("pager", None)]
    assert engine.deliver("pager") == 2
    assert pager.sent == [("+41", "alert.opened: no 1"), ("+41", "alert.opened: no 2")]
    assert set(Delivery.objects.values_list("state", "attempts", "status_code")) == {("done", 1, 200)}
    assert DeliveryCount.objects.get().to == "pager"


def test_final_answer_ends_a_delivery_without_retry(pager: type[Pager]) -> None:
    pager.answer = Answer(550, "Never.", is_final=True)
    engine.enqueue([message(1)])
    engine.deliver("pager")
    row = Delivery.objects.get()
    assert (row.state, row.attempts, row.error) == ("dead", 1, "Never.")
    assert row.ended_at is not None


def test_delivery_that_fails_to_prepare_is_retried_and_delays_no_other(
    pager: type[Pager], caplog: pytest.LogCaptureFixture
) -> None:
    engine.enqueue([message(1, body={}, about="report:5"), message(2)])
    engine.deliver("pager")
    assert [words for _, words in pager.sent] == ["alert.opened: no 2"]
    row = Delivery.objects.get(once="1")
    assert (row.state, row.attempts, row.error, row.claim) == ("waiting", 1, engine.UNMADE, None)
    assert row.next_at > timezone.now()
    assert "Report 5 can't be made into a message." in caplog.text


@pytest.mark.parametrize("at_most_once", [True, False])
def test_delivery_of_a_lost_worker_is_resent_unless_at_most_once(
    pager: type[Pager], monkeypatch: pytest.MonkeyPatch, at_most_once: bool
) -> None:
    known(monkeypatch, Kind("rare", at_most_once=at_most_once))
    engine.enqueue([message(1, "rare"), message(2)])
    first = Delivery.objects.get(once="1")
    assert engine._claim(first, 30)
    Delivery.objects.filter(pk=first.pk).update(claimed_until=timezone.now() - timedelta(seconds=1))
    engine.deliver("pager")
    lost = Delivery.objects.get(once="1")
    assert (lost.state, lost.error) == (("dead", engine.LOST) if at_most_once else ("done", ""))
    assert len(pager.sent) == (1 if at_most_once else 2)
    engine._settle(first, Answer(200), timezone.now())
    assert Delivery.objects.get(once="1").state == lost.state, "a worker that wakes up changes nothing"


def test_kind_that_comes_last_is_sent_after_all_others(pager: type[Pager], monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, Kind("rare", comes_last=True))
    engine.enqueue([message(1, "rare"), message(2, "rare"), message(3)])
    engine.deliver("pager")
    assert [words for _, words in pager.sent] == ["alert.opened: no 3", "rare: no 1", "rare: no 2"]


def test_kind_that_comes_last_occupies_a_single_worker(pager: type[Pager], monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, Kind("rare", comes_last=True))
    engine.enqueue([message(1, "rare"), message(2, "rare")])
    assert engine._claim(Delivery.objects.get(once="1"), 30)
    assert engine.receivers(timezone.now()) == []
    engine.enqueue([message(3)])
    assert engine.receivers(timezone.now()) == [("pager", None)]
    monkeypatch.setattr(pager, "is_exclusive", True)
    assert engine.receivers(timezone.now()) == []


def test_mail_is_made_once_for_all_recipients_of_the_same_subject(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_URL = "smtp://mail.example.org"
    made: list[str] = []

    def mail(row: Delivery) -> MailContent:
        made.append(row.about)
        return MailContent("Rare", "text", "<p>text</p>")

    known(monkeypatch, Kind("rare", mail))
    to = ("a@example.org", "b@example.org", "c@example.org")
    about = ("rare:1", "rare:1", "rare:2")
    rows = [message(n, "rare", channel="email", address=to[n], about=about[n], body={}) for n in range(3)]
    engine.enqueue(rows)
    assert engine.deliver("email") == 3
    assert made == ["rare:1", "rare:2"]
