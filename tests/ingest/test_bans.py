"""Who is banned for guessing, from when and until when: the guard, which no flood makes grow without end, `manage.py
ban`, and real connections to a media node, as attackers, encoders and viewers have them."""

import asyncio
import contextlib
import logging
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from ingest import clock
from ingest.consumers import login, upkeep
from ingest.models import Application, Attempt, Ban, Session, Stream
from ingest.rtmp import events
from ingest.services import bans, keys, play_tokens
from ingest.services.bans import WINDOW_S, Guard, KnownBan
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.clients import go_live, publish_to, watch_live
from tests.ingest.control import NODE, listening
from tests.ingest.faults import missing_table
from tests.ingest.operators import run, run_json
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient
from tests.server.media import AVC_HEADER

NOW = 1_800_000_000.0
PEER = "192.0.2.7"


async def play_from(port: int, name: str, app: str = "live") -> str:
    """Return "live" or the refusal."""
    async with RtmpClient(port=port) as player:
        try:
            await watch_live(player, name, app)
        except Refused as refused:
            return str(refused)
    return "live"


def guard(guesses: int = 3, ban_s: float = 600.0, most: int = 100) -> Guard:
    return Guard(guesses=guesses, ban_s=ban_s, most=most)


def known(address: str = PEER, *, at: float = NOW, until: float = NOW + 600, lifted: bool = False) -> KnownBan:
    return KnownBan(address, at, until, lifted)


def guess_thrice(found: Guard, now: float = NOW) -> list[int]:
    return [found.wrong(PEER, f"key-{number}", now) for number in range(3)]


def test_different_wrong_secrets_ban() -> None:
    found = guard()
    assert guess_thrice(found) == [0, 0, 3]
    assert found.banned_until(PEER, NOW) == NOW + 600
    assert found.banned_until("192.0.2.8", NOW) is None
    assert found.banned_until(PEER, NOW + 600) is None


def test_repeated_wrong_key_or_rare_wrong_keys_cause_no_ban() -> None:
    found = guard()
    assert not any(found.wrong(PEER, "key-1", NOW + second) for second in range(0, 86_400, 10))
    assert found.sizes == (1, 1, 0)
    found = guard()
    assert not any(found.wrong(PEER, f"key-{number}", NOW + number * WINDOW_S / 2) for number in range(50))


def test_a_secret_counts_from_when_it_was_last_tried() -> None:
    found = guard()
    for second in (0, WINDOW_S - 1):
        found.wrong(PEER, "key-1", NOW + second)
    found.wrong(PEER, "key-2", NOW + WINDOW_S + 1)
    assert found.wrong(PEER, "key-3", NOW + WINDOW_S + 2) == 3


def test_a_network_of_ipv6_counts_as_one() -> None:
    found = guard()
    counts = [found.wrong(f"2001:db8:1:2::{number}", f"key-{number}", NOW) for number in range(3)]
    assert counts == [0, 0, 3]
    assert found.banned_until("2001:db8:1:2:ffff::1", NOW) is not None
    assert found.banned_until("2001:db8:1:3::1", NOW) is None


def test_ban_resets_the_count_of_wrong_secrets() -> None:
    found = guard()
    guess_thrice(found)
    assert found.wrong(PEER, "late answer to one that was asked before", NOW) == 0
    assert guess_thrice(found, NOW + 601) == [0, 0, 3]


def test_without_bans_nothing_is_counted() -> None:
    found = guard(ban_s=0)
    assert not any(found.wrong(PEER, f"key-{number}", NOW) for number in range(50))
    assert found.sizes == (0, 0, 0)


@pytest.mark.parametrize("address", ["", "unix:", "not an address"])
def test_peer_without_ip_address_is_neither_counted_nor_banned(address: str) -> None:
    found = guard(guesses=1)
    assert found.wrong(address, "key-1", NOW) == 0
    assert found.banned_until(address, NOW) is None


def test_bans_of_other_nodes_hold_here() -> None:
    found = guard()
    found.settle([known()], NOW)
    assert found.banned_until(PEER, NOW) == NOW + 600
    found.settle([], NOW)
    assert found.banned_until(PEER, NOW) is None


def test_an_own_ban_holds_while_its_row_waits() -> None:
    found = guard()
    guess_thrice(found)
    found.settle([], NOW + 1)
    found.settle([known(at=NOW - 500, lifted=True)], NOW + 2)  # An older one says nothing of it.
    assert found.banned_until(PEER, NOW + 2) == NOW + 600


@pytest.mark.parametrize("seen_first", [True, False])
def test_a_lifted_ban_is_over(seen_first: bool) -> None:
    found = guard()
    guess_thrice(found)
    if seen_first:
        found.settle([known()], NOW + 1)
    found.settle([known(lifted=True)], NOW + 2)
    assert found.banned_until(PEER, NOW + 2) is None


def test_address_with_several_bans_is_banned_until_the_latest_end() -> None:
    found = guard()
    found.settle([known(until=NOW + 10), known(until=NOW + 500), known(until=NOW + 900, lifted=True)], NOW)
    assert found.banned_until(PEER, NOW) == NOW + 500


@given(
    tries=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40), st.floats(0, 400, allow_nan=False)), max_size=300),
    most=st.integers(1, 20),
    guesses=st.integers(1, 5),
)
def test_guard_never_exceeds_its_memory_bounds(tries: list[tuple[int, int, float]], most: int, guesses: int) -> None:
    found = guard(guesses, most=most)
    now = NOW
    for peer, secret, passed in tries:
        now += passed
        found.wrong(f"198.51.100.{peer}", f"key-{secret}", now)
        addresses, hashes, bans = found.sizes
        assert addresses <= most
        assert hashes <= addresses * (guesses - 1)
        assert bans <= most
        if passed > 300:
            found.settle([], now)


@given(tries=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.floats(0, 300)), max_size=120))
def test_address_is_banned_only_for_enough_wrong_secrets_within_the_window(tries: list[tuple[int, int, float]]) -> None:
    found = guard(4)
    seen: dict[str, dict[int, float]] = {}
    now = NOW
    for peer, secret, passed in tries:
        now += passed
        address = f"198.51.100.{peer}"
        if found.banned_until(address, now) is not None:
            continue
        mine = seen.setdefault(address, {})
        mine[secret] = now
        recent = {each for each, last in mine.items() if last > now - WINDOW_S}
        assert found.wrong(address, f"key-{secret}", now) == (len(recent) if len(recent) >= 4 else 0)
        if len(recent) >= 4:
            del seen[address]


@pytest.mark.django_db
def test_ban_command_adds_lists_and_lifts_bans(settings: Settings) -> None:
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
    assert "can connect again" in run("ban", "lift", "::ffff:192.0.2.7")
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
def test_ban_command_reports_invalid_arguments(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run("ban", *words)
    assert not Ban.objects.exists()


@pytest.mark.django_db
def test_ban_command_lifts_a_network_named_as_it_is_listed() -> None:
    run("ban", "add", "2001:db8:1:2::/64")
    assert run_json("ban", "lift", "2001:db8:1:2::/64") == {"lifted": 1}


HERE = "127.0.0.1"


@pytest.fixture(autouse=True)
def quick(settings: Any) -> None:
    settings.GUESSES = 3


async def guess(port: int, count: int) -> list[str]:
    return [await publish_to(port, keys.generate()) for _ in range(count)]


async def impose() -> None:
    await sync_to_async(bans.impose)(address=HERE, seconds=600, now=timezone.now())


class Looks:
    """Counts the node's looks at the bans that are over. It takes one each second, test_node has that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.over = 0
        self._tell = bans.update_guard
        monkeypatch.setattr(bans, "update_guard", self._look)

    def _look(self, *args: Any, **kwargs: Any) -> bans.Mark:
        mark = self._tell(*args, **kwargs)
        self.over += 1
        return mark

    async def another(self) -> None:
        """Waits for one that begins after now: the next one that ends may be under way."""
        seen = self.over
        await until(lambda: self.over > seen + 1)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


async def test_guessing_bans_address_but_keeps_live_publishers_and_public_players(
    process: HistoryWriter, key: NewKey, other_key: NewKey, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as port, RtmpClient(port=port) as before:
        stream_id = await go_live(before, other_key.secret)
        with caplog.at_level(logging.WARNING):
            wrong = await guess(port, 3)
        assert {"NetStream.Publish.Denied: The stream key is not known."} == set(wrong)
        refusal = await publish_to(port, key.secret)
        assert refusal.startswith(
            "NetStream.Publish.Denied: Too many wrong keys, tokens or passwords came from this address."
        )
        by_app = await publish_to(port, "cam1", app=f"live?key={key.secret}")
        assert by_app.startswith("NetConnection.Connect.Rejected: Too many wrong keys")
        assert "Too many wrong keys" in await play_from(port, "cam1?token=anything")
        assert await play_from(port, "cam1") == "live"
        await before.send_video(stream_id, 40, AVC_HEADER)
        assert not before.closed
    assert f"manage.py ban lift {HERE}" in caplog.text
    assert process.flush(5)
    ban = await Ban.objects.aget()
    assert (ban.address, ban.guesses, ban.node, ban.lifted_at) == (HERE, 3, NODE, None)
    assert 590 < (ban.until - timezone.now()).total_seconds() < 600
    refused = [
        (row.action, row.name, row.count) async for row in Attempt.objects.filter(reason="banned").order_by("pk")
    ]
    assert refused == [("publish", "", 1), ("connect", "", 1), ("play", "", 1)]
    assert await Session.objects.filter(kind="publish").acount() == 1


async def test_encoder_repeating_one_wrong_key_is_not_banned(process: HistoryWriter, key: NewKey) -> None:
    async with listening() as port:
        mistyped = keys.generate()
        for _ in range(5):
            assert "not known" in await publish_to(port, mistyped)
        assert await publish_to(port, key.secret) == "live"
    assert process.flush(5)
    assert (await Attempt.objects.aget()).count == 5
    assert not await Ban.objects.aexists()


@pytest.mark.parametrize("on_app", [False, True], ids=["with the name", "on the application, where they are refused"])
async def test_wrong_tokens_are_guesses_too(process: HistoryWriter, stream: Stream, on_app: bool) -> None:
    async def play(token: str) -> str:
        query = f"?token={token}"
        return await (play_from(port, "cam1", f"live{query}") if on_app else play_from(port, f"cam1{query}"))

    await Application.objects.aupdate(play_policy="token")
    token = play_tokens.PLAY.issue(stream.pk)
    code = "NetConnection.Connect.Rejected" if on_app else "NetStream.Play.Failed"
    async with listening() as port:
        assert await play(token) == "live"
        for number in range(3):
            assert await play(f"guess-{number}") == f"{code}: The play token is not valid for this stream."
        assert "Too many wrong keys, tokens or passwords" in await play(token)


async def test_a_lifted_ban_is_over_with_the_nodes_next_look(process: HistoryWriter, key: NewKey, looks: Looks) -> None:
    async with listening() as port:
        await guess(port, 3)
        assert "Too many" in await publish_to(port, key.secret)
        await until(Ban.objects.exists)
        assert await sync_to_async(bans.lift)(address=HERE, now=timezone.now()) == 1
        await looks.another()
        assert await publish_to(port, key.secret) == "live"


@pytest.mark.both_forms
async def test_another_nodes_ban_holds_here_with_the_next_look_and_ends_by_itself(
    process: HistoryWriter, key: NewKey, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening() as port:
        assert await publish_to(port, key.secret) == "live"
        await impose()
        await looks.another()
        assert "Too many" in await publish_to(port, key.secret)
        monkeypatch.setattr(login, "clock", SimpleNamespace(now=lambda: time.time() + 600, utc_now=clock.utc_now))
        assert await publish_to(port, key.secret) == "live"


@pytest.mark.both_forms
async def test_a_node_that_starts_knows_the_bans(
    process: HistoryWriter, key: NewKey, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its start, not from its first look afterwards."""
    monkeypatch.setattr(upkeep.Upkeep, "_revocations", AsyncMock())
    await impose()
    async with listening() as port:
        await until(lambda: looks.over)
        assert "Too many" in await publish_to(port, key.secret)


async def test_banned_address_gets_the_same_refusal_for_right_and_wrong_keys(
    process: HistoryWriter, key: NewKey
) -> None:
    """Not even whether they could be looked up."""
    async with listening() as port:
        await guess(port, 3)
        with missing_table("ingest_streamkey"):
            right, wrong = await publish_to(port, key.secret), await publish_to(port, keys.generate())
    assert right == wrong
    assert "Too many" in right


async def test_repeated_wrong_keys_are_only_refused_while_bans_are_off(
    process: HistoryWriter, key: NewKey, settings: Any
) -> None:
    settings.BAN_S = 0
    async with listening() as port:
        assert all("not known" in answer for answer in await guess(port, 6))
        assert await publish_to(port, key.secret) == "live"


def held_long(_least: float, _most: float) -> float:
    """In place of a random time: clients don't wait so long."""
    return 60.0


async def test_wrong_keys_are_answered_late_and_right_ones_at_once(
    process: HistoryWriter, key: NewKey, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REFUSAL_DELAY_S = 0.8
    loop = asyncio.get_running_loop()
    mistyped = keys.generate()
    drawn: list[tuple[float, float]] = []

    def draw(least: float, most: float) -> float:
        drawn.append((least, most))
        return held_long(least, most)

    async def timed() -> tuple[str, float]:
        asked = loop.time()
        return await publish_to(port, mistyped), loop.time() - asked

    async with listening() as port:
        with monkeypatch.context() as longer:
            longer.setattr(login._random, "uniform", draw)
            waiting = asyncio.gather(*(timed() for _ in range(8)))
            await until(lambda: len(drawn) == 8)
            assert await publish_to(port, key.secret) == "live"
            assert not waiting.done()
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
        answers = await asyncio.gather(*(timed() for _ in range(8)))
    assert drawn == [(0, 0.8)] * 8
    assert all("not known" in answer for answer, _ in answers)
    times = [took for _, took in answers]
    assert max(times) > 0.1  # Eight random times of up to 0.8 s.
    assert max(times) - min(times) > 0.04


async def test_client_leaving_during_the_refusal_delay_leaves_one_attempt(
    process: HistoryWriter, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REFUSAL_DELAY_S = 7.0
    monkeypatch.setattr(login._random, "uniform", held_long)
    application = await Application.objects.acreate(name="live")
    async with listening() as port, RtmpClient(port=port) as encoder:
        await encoder.connect(application.name)
        stream_id = await encoder.create_stream()
        encoder.protocol.publish(stream_id, keys.generate(), "live")
        await encoder.flush()
        await until(Attempt.objects.exists)
        assert not encoder.of(events.StatusReceived)
        encoder.abort()
    assert (await Attempt.objects.aget()).count == 1
