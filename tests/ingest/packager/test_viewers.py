"""Viewers by HLS are sessions: who may watch, who is counted, and how each ends."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from ingest.consumers import decisions
from ingest.contracts.figures import NodeFigures
from ingest.live_store import get_livestore
from ingest.models import Application, Attempt, Session, Stream
from ingest.packager.packager import Packager
from ingest.packager.viewers import Report, read_report
from ingest.services import actions, audit, play_tokens, sessions
from ingest.services.keys import NewKey
from tests.ingest.control import flush
from tests.ingest.faults import held, limited
from tests.ingest.packager.running import ORIGIN, PACKAGER, SHORT, ClipPublisher, Running, running
from tests.ingest.test_relays import snapshots
from tests.ingest.ticks import until

pytestmark = pytest.mark.usefixtures("process")


async def watched(hls: Running, **options: Any) -> str:
    """A new viewer's media playlist, once the stream is there."""
    async with asyncio.timeout(20):
        while (answer := await hls.get(**options)).status_code != 200:
            assert answer.status_code in (404, 503), answer.text
            await asyncio.sleep(0.05)
    return next(line for line in answer.text.splitlines() if line and not line.startswith("#"))


async def until_status(hls: Running, file: str, status: int, **options: Any) -> httpx.Response:
    async with asyncio.timeout(10):
        while (answer := await hls.get(file, **options)).status_code != status:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return answer


def of_viewers() -> Any:
    return Session.objects.filter(kind="play", encoder__contains="httpx")


def nodes(name: str) -> list[NodeFigures]:
    return [each for each in get_livestore().read().nodes if each["node"] == name]


def of_node(node: NodeFigures) -> Any:
    relays = [(relay["players"], relay["here"], relay["relayed_to"]) for relay in node.get("relays", [])]
    return (node["players"], node.get("viewers")), relays


@pytest.fixture
def soon_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A viewer has left after `gone_s`, however long the segments are."""
    monkeypatch.setattr(Packager, "_gone_s", lambda packager, _path: packager.settings.gone_s)


async def test_viewer_of_long_segments_has_left_after_twice_their_duration(key: NewKey, clip: Path) -> None:
    async with running(hls=SHORT, gone_s=1.0) as hls, ClipPublisher(hls, key.secret, clip):
        await watched(hls)
        stream = hls.packager.packaged("live/cam1")
        assert stream is not None
        assert [each.targets.duration_s for each in stream.packaging.renditions.values()] == [1]
        assert (hls.packager._gone_s("live/cam1"), hls.packager._gone_s("live/cam2")) == (4, 1)


@pytest.mark.usefixtures("soon_gone")
async def test_each_viewer_is_counted_where_the_stream_is_published(key: NewKey, clip: Path) -> None:
    # Who waited in vain for the first segment would be one more viewer.
    async with running(hls=SHORT, gone_s=1.0, ready_s=20.0) as hls, ClipPublisher(hls, key.secret, clip):
        playlists = [await watched(hls) for _ in range(3)]

        async def keep_watching() -> None:
            while True:
                for playlist in playlists:
                    await hls.get(playlist)
                await asyncio.sleep(0.1)

        watching = asyncio.create_task(keep_watching())
        await until(lambda: [(each["players"], each.get("viewers")) for each in snapshots(ORIGIN)] == [(3, 3)])
        await until(lambda: [each["node"] for each in snapshots(ORIGIN)[0].get("relayed_to", [])] == [PACKAGER])
        # A node tells of itself in a message of its own.
        await until(lambda: [of_node(each) for each in nodes(PACKAGER)] == [((3, 3), [(3, 3, [])])])
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await until(lambda: [each["players"] for each in snapshots(ORIGIN)] == [0])
        await sync_to_async(flush)()
        ended = [(row.protocol, row.end_reason, row.bytes_out > 0) async for row in of_viewers()]
        assert ended == [("hls", "client_unpublish", True)] * 3


@pytest.mark.usefixtures("soon_gone")
async def test_figures_reported_by_a_page_are_kept_in_its_session(key: NewKey, clip: Path) -> None:
    told = {"join_ms": 400, "stalls": 1, "stalled_ms": 100, "watched_ms": 900}
    async with running(hls=SHORT, gone_s=1.0) as hls, ClipPublisher(hls, key.secret, clip):
        playlist = await watched(hls)
        viewer = playlist.partition("viewer=")[2]
        answer = await hls.http.post(hls.url(f"beacon?viewer={viewer}"), content=json.dumps(told | {"behind_ms": 2000}))
        assert answer.status_code == 204
        await until(lambda: hls.packager.viewers.get(viewer) is None)
        await sync_to_async(flush)()
        row = await of_viewers().aget()
        assert {name: row.summary.get(name) for name in told} == told


@pytest.mark.usefixtures("soon_gone")
async def test_returning_viewer_is_counted_again_by_the_same_id(key: NewKey, clip: Path) -> None:
    """Who paused goes on with the playlist that he has."""
    async with running(gone_s=0.3) as hls, ClipPublisher(hls, key.secret, clip):
        playlist = await watched(hls)
        viewer = playlist.partition("viewer=")[2]
        await until(lambda: hls.packager.viewers.get(viewer) is None)
        assert (await hls.get(playlist)).status_code == 200
        await until(lambda: hls.packager.viewers.get(viewer) is not None)


@pytest.mark.usefixtures("soon_gone")
async def test_viewers_leaving_an_ended_stream_do_not_reduce_the_next_ones_count(key: NewKey, clip: Path) -> None:
    """They leave when it is packaged anew."""
    async with running(hls=SHORT, end_players_s=0.3, gone_s=2.5) as hls:
        async with ClipPublisher(hls, key.secret, clip):
            former = (await watched(hls)).partition("viewer=")[2]
        async with asyncio.timeout(10):
            while (await hls.get("state.json")).json()["state"] != "ended":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        async with ClipPublisher(hls, key.secret, clip):
            playlist = await watched(hls)
            assert hls.packager.viewers.get(former) is not None
            async with asyncio.timeout(20):
                while hls.packager.viewers.get(former) is not None:
                    assert (await hls.get(playlist)).status_code == 200
                    await asyncio.sleep(0.1)
            stream = hls.packager.packaged("live/cam1")
            assert stream is not None
            assert stream.viewers == 1


async def test_a_packager_that_drains_lets_its_viewers_go(key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip):
        playlist = await watched(hls)
        await sync_to_async(actions.drain_node)(audit.command("test"), PACKAGER, grace_s=1)
        await until(lambda: hls.packager.server.draining)
        await until(lambda: not hls.packager.server.sessions)
        for file in (playlist, "index.m3u8"):
            answer = await hls.get(file)
            assert (answer.status_code, answer.json()) == (
                503,
                {"detail": "This server is about to stop. Try again in a while."},
            )


async def test_forged_viewer_id_is_served_but_not_counted(key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip):
        playlist = await watched(hls)
        forged = playlist[:-4] + ("0000" if playlist[-4:] != "0000" else "1111")
        assert (await hls.get(forged)).status_code == 200, "a cache may ask without one"
        assert hls.packager.viewers.get(forged.partition("viewer=")[2]) is None
        assert len(hls.packager.server.sessions) == 1


async def test_kicked_viewer_is_refused_with_the_reason(key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip):
        playlist = await watched(hls)
        await sync_to_async(flush)()
        row = await of_viewers().aget()
        await sessions.send_stop(channel=row.channel, session_id=row.pk, reason="kicked")
        answer = await until_status(hls, playlist, 403)
        assert answer.json() == {"detail": "Watching was stopped by an operator."}
        await sync_to_async(flush)()
        assert (await of_viewers().aget()).end_reason == "kicked"


async def test_new_viewer_while_the_database_is_slow_gets_503_with_retry_after(key: NewKey, clip: Path) -> None:
    """It is not refused: a player would give up."""
    async with running(known_s=5.0) as hls, ClipPublisher(hls, key.secret, clip):
        await watched(hls)
        with held(decisions.READ), limited(0.3):
            answer = await hls.get()
        assert (answer.status_code, answer.headers.get("retry-after")) == (503, "2")


# --- Who may watch ---


async def test_a_stream_that_is_closed_is_so_within_seconds(stream: Stream, key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip):
        playlist = await watched(hls)
        media = next(line for line in (await hls.get(playlist)).text.splitlines() if "EXT-X-MAP" in line)
        init = media.split('"')[1]
        assert (await hls.get(init)).status_code == 200
        await Stream.objects.filter(pk=stream.pk).aupdate(play_policy="none")
        async with asyncio.timeout(4):
            for file in (playlist, init, "index.m3u8"):
                answer = await until_status(hls, file, 403)
                assert answer.json() == {"detail": "This stream can't be watched."}
        assert (await hls.get("state.json")).json()["state"] == "closed"


async def test_link_token_in_the_path_admits_until_links_are_renewed(stream: Stream, key: NewKey, clip: Path) -> None:
    await Stream.objects.filter(pk=stream.pk).aupdate(play_policy="token")
    token = play_tokens.PLAY.issue(stream.pk)
    async with running() as hls, ClipPublisher(hls, key.secret, clip):
        playlist = await watched(hls, token=token)
        assert (await hls.get(playlist, token=token)).status_code == 200
        assert (await hls.get(playlist)).status_code == 403
        answer = await hls.get()
        assert answer.json() == {"detail": "This stream can't be watched."}, "as if there were none"
        forged = f"{token[:-2]}zz"
        assert (await hls.get(token=forged)).status_code == 403
        await Stream.objects.filter(pk=stream.pk).aupdate(link_generation=2)
        answer = await until_status(hls, playlist, 403, token=token)
        assert answer.json() == {"detail": "This link is not valid any more. Ask for a new one."}


async def test_refused_viewer_is_recorded_and_cannot_probe_stream_names(application: Application) -> None:
    async with running() as hls:
        answer = await hls.get(path="live/nobody")
        assert (answer.status_code, answer.json()) == (403, {"detail": "This stream can't be watched."})
        assert (await hls.get(path="other/nobody")).json() == answer.json()
        by_link = await hls.get("state.json", path="live/nobody", token="a:b:c")
        assert by_link.json() == {"state": "closed", "words": "This link is not valid any more. Ask for a new one."}
        await sync_to_async(flush)()
        assert {row.reason async for row in Attempt.objects.all()} == {"stream_unknown", "unknown_app"}


async def test_viewer_of_an_unpublished_stream_waits_without_a_session(stream: Stream, key: NewKey, clip: Path) -> None:
    async with running() as hls:
        answer = await hls.get()
        assert (answer.status_code, answer.json()) == (404, {"detail": "The stream has not begun yet."})
        assert (await hls.get("state.json")).json() == {"state": "waiting", "words": "The stream has not begun yet."}
        assert not hls.packager.server.sessions
        async with ClipPublisher(hls, key.secret, clip):
            await watched(hls)


async def test_new_viewers_per_address_are_limited(key: NewKey, clip: Path) -> None:
    async with running(new_viewers=3, new_viewers_per_s=0.001) as hls, ClipPublisher(hls, key.secret, clip):
        await watched(hls)
        statuses = [(await hls.get()).status_code for _ in range(5)]
        assert 503 in statuses
        assert len(hls.packager.server.sessions) <= 3


async def test_stream_names_asked_for_per_address_are_limited(key: NewKey, clip: Path) -> None:
    """Each asks the database, which others wait for; who watches asks for one that is known."""
    async with running(new_viewers=10, new_viewers_per_s=0.001) as hls, ClipPublisher(hls, key.secret, clip):
        playlist = await watched(hls)
        statuses = [(await hls.get("state.json", path=f"live/any{number}")).status_code for number in range(15)]
        assert (statuses[0], statuses[-1]) == (200, 503)
        assert (await hls.get(playlist)).status_code == 200


# --- What pages report ---


async def test_a_page_reports_what_its_viewer_has_seen(key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip):
        playlist = await watched(hls)
        viewer = playlist.partition("viewer=")[2]
        said = {"join_ms": 700, "stalls": 1, "stalled_ms": 50, "watched_ms": 900, "behind_ms": 1200}
        answer = await hls.http.post(hls.url(f"beacon?viewer={viewer}"), json=said)
        assert answer.status_code == 204
        found = hls.packager.viewers.get(viewer)
        assert found is not None
        assert found.report == Report(join_ms=700, stalls=1, stalled_ms=50, watched_ms=900)
        assert (await hls.http.post(hls.url(f"beacon?viewer={viewer}"), content=b"x" * 5000)).status_code == 413
        for nonsense in (b"", b"{", b"[]", b'"a"', b'{"stalls": -1}', b'{"watched_ms": 1e99}', b"[" * 900):
            assert (await hls.http.post(hls.url(f"beacon?viewer={viewer}"), content=nonsense)).status_code == 204
        assert found.report == Report(join_ms=700, stalls=1, stalled_ms=50, watched_ms=900)
        assert (await hls.http.post(hls.url("beacon?viewer=other"), json=said)).status_code == 204


def test_a_report_only_grows() -> None:
    first = read_report({"join_ms": 500, "watched_ms": 4000}, Report())
    assert first == Report(join_ms=500, watched_ms=4000)
    assert read_report({"join_ms": 900, "watched_ms": 3000}, first) == first
    assert read_report({"watched_ms": 10**12}, first) == first
    assert read_report({"watched_ms": True, "stalls": "1"}, first) == first


def test_session_report_has_only_the_difference_to_the_former_one() -> None:
    """A page that was paused for long goes on counting from where it was."""
    before = Report(join_ms=500, stalls=1, stalled_ms=100, watched_ms=4000)
    now = read_report({"join_ms": 500, "stalls": 3, "stalled_ms": 400, "watched_ms": 9000}, before)
    assert now.since(before) == {"join_ms": None, "stalls": 2, "stalled_ms": 300, "watched_ms": 5000}
    assert Report().since(Report()) == {"join_ms": None, "stalls": None, "stalled_ms": None, "watched_ms": None}
