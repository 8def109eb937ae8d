"""Instances of an application: namespaces of its streams, in URLs, names, keys, shared objects, and in some number."""

import asyncio
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import ValidationError
from django.core.management import CommandError
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from ingest.models import Application, Attempt, Recording, Session, Stream
from ingest.rtmp import events
from ingest.services import actions as services_actions
from ingest.services import admission, audit, authorization, keys, media_urls, playback, recordings, shared_objects
from ingest.services.admission import Grant
from ingest.services.authorization import Peer, PublishRequest
from ingest.services.keys import NewKey
from ingest.services.refusals import Refused as NotAdmitted
from ingest.services.shared_objects import ObjectRow
from tests.ingest.admitting import NOW
from tests.ingest.clients import go_live, watch_live
from tests.ingest.control import Connection, flush, listening
from tests.ingest.operators import run
from tests.ingest.ticks import until
from tests.media import make_clip, of_kind, read_packets
from tests.rtmp_client import Refused, RtmpClient
from tests.tools import require_tool

pytestmark = pytest.mark.usefixtures("process")

PEER = Peer("192.0.2.7", "OBS", "node-a", "channel")


@pytest.fixture
def inside(application: Application) -> NewKey:
    """The key of live/room/cam."""
    return keys.create(stream=Stream.objects.create(application=application, name="room/cam"))


@pytest.fixture
def open_app(db: None) -> Application:
    return Application.objects.create(name="bench", publish_policy="open", max_instances=2)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(NotAdmitted) as caught:
        act()
    return f"{caught.value.code.rpartition('.')[2]} {caught.value.reason}"


def connect(app: str, credential: str = "") -> None:
    authorization.connect(authorization.ConnectRequest(app, PEER.address, credential), NOW)


def publish(app: str, credential: str, *, instance: str = "", name: str | None = None) -> Grant:
    """With the credential as the name, or beside one."""
    request = PublishRequest(app, name or "", credential, name is None, instance=instance)
    return admission.admit_publish(admission.Ask(uuid.uuid4(), request, PEER), now=NOW, asked_at=NOW)


def play(name: str, app: str = "live") -> playback.Playable:
    return playback.check(app=app, name=name, credential="", now=NOW)


# --- With keys ---


def test_instance_exists_only_with_its_streams_or_recordings(inside: NewKey, application: Application) -> None:
    connect("live/room")
    assert refusal(partial(connect, "live/Room")) == "InvalidApp instance_unknown"
    for app in ("live/other", "live/room/cam", "live/-room", f"live/{'x' * 65}", f"live/{keys.generate()}"):
        assert refusal(partial(connect, app)) == "InvalidApp instance_unknown"
    assert refusal(partial(connect, "nothing/room")) == "InvalidApp unknown_app"
    Recording.objects.create(application=application, name="other/film", file="film.flv")
    connect("live/other")


def test_key_publishes_from_the_application_or_its_own_instance_only(inside: NewKey, key: NewKey) -> None:
    """In the instance only keys of it do; in the application all do, and a name may be whole."""
    assert publish("live", inside.secret, instance="room").path == "live/room/cam"
    Session.objects.all().delete()
    assert publish("live", inside.secret, instance="room", name="cam").path == "live/room/cam"
    for ways in ({"name": "room/cam"}, {}):
        Session.objects.all().delete()
        assert publish("live", inside.secret, **ways).path == "live/room/cam"
    Session.objects.all().delete()
    assert publish("live", f"room/{inside.secret}").path == "live/room/cam"
    assert refusal(partial(publish, "live", key.secret, instance="room")) == "Denied key_other_stream"
    assert refusal(partial(publish, "live", inside.secret, name="cam")) == "Denied key_other_stream"
    assert refusal(partial(connect, "live/room", key.secret)) == "Rejected key_other_stream"
    connect("live/room", inside.secret)


def test_equal_names_in_two_instances_are_two_streams(inside: NewKey, application: Application) -> None:
    other = keys.create(stream=Stream.objects.create(application=application, name="hall/cam"))
    assert publish("live", inside.secret, instance="room").path == "live/room/cam"
    assert publish("live", other.secret, instance="hall").path == "live/hall/cam"
    assert refusal(partial(play, "cam")) == "StreamNotFound stream_unknown"
    for name in ("room/cam", "room/flv:cam", "room/cam.flv", "room/mp4:cam.mp4"):
        assert play(name).name == "room/cam"


# --- Open applications ---


def test_open_application_creates_instances_up_to_its_maximum(open_app: Application) -> None:
    assert publish("bench", "cam", instance="one").path == "bench/one/cam"
    assert publish("bench", "two/cam").path == "bench/two/cam"
    assert publish("bench", "cam2", instance="two").path == "bench/two/cam2"
    for act in (
        partial(connect, "bench/three"),
        partial(publish, "bench", "cam", instance="three"),
        partial(publish, "bench", "three/cam"),
    ):
        assert refusal(act).endswith("too_many_instances")
    assert refusal(partial(play, "three/cam", "bench")) == "StreamNotFound stream_unknown"
    assert play("two/next", "bench").is_awaited
    assert publish("bench", "plain").path == "bench/plain"
    assert authorization.instance_names(application=open_app) == {"one", "two"}


def test_key_sent_as_instance_or_stream_name_creates_nothing(open_app: Application) -> None:
    stream = Stream.objects.create(application=open_app, name="cam1")
    own, imported = keys.create(stream=stream).secret, keys.create(stream=stream, secret="oldserver-key-1").secret
    for secret in (own, imported, keys.generate()):
        assert refusal(partial(connect, f"bench/{secret}")) == "InvalidApp instance_unknown"
        assert refusal(partial(publish, "bench", f"{secret}/cam")).endswith("instance_unknown")
    for secret in (own, imported):
        assert refusal(partial(publish, "bench", f"room/{secret}")) == "Denied key_other_stream"
    assert refusal(partial(publish, "bench", f"room/{keys.generate()}")) == "Denied key_unknown"
    assert [each.name for each in Stream.objects.all()] == ["cam1"]


def test_instance_limit_counts_recordings_and_is_case_sensitive(open_app: Application) -> None:
    Recording.objects.create(application=open_app, name="two/film", file="film.flv")
    Stream.objects.bulk_create(Stream(application=open_app, name=name) for name in ("one/cam", "onetwo"))
    assert authorization.instance_names(application=open_app) == {"one", "two"}
    connect("bench/two")
    for name in ("three", "One", "on", "onetwo"):
        assert refusal(partial(connect, f"bench/{name}")) == "Rejected too_many_instances"
    Stream.objects.filter(name="one/cam").update(name="three/cam")
    connect("bench/three")
    assert refusal(partial(connect, "bench/one")) == "Rejected too_many_instances"


@pytest.mark.stores
def test_instance_lookup_uses_an_index(open_app: Application) -> None:
    """Anybody may ask, for any name. With many rows of the application there is one index that is worth it."""
    Stream.objects.bulk_create(Stream(application=open_app, name=f"cam-{number}") for number in range(500))
    files = [Recording(application=open_app, name=f"cam-{each}", file=f"{each}.flv") for each in range(500)]
    Recording.objects.bulk_create(files)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE ingest_stream, ingest_recording")
    with CaptureQueriesContext(connection) as captured:
        connect("bench/room-1234")
        publish("bench", "cam", instance="one")
    said = [each["sql"] for each in captured]
    looked_up = [sql for sql in said if '."instance" = ' in sql or " UNION " in sql]
    assert len(looked_up) >= 3
    for sql in looked_up:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{sql}")
            plan = str(cursor.fetchall())
        assert "stream_instance" in plan or "recording_instance" in plan, plan


# --- Where operators make them ---


def test_operators_cannot_create_more_instances_than_allowed(application: Application) -> None:
    Application.objects.update(max_instances=1)
    application.refresh_from_db()
    actor = audit.command("test")
    for name in ("room/cam", "room/cam2", "plain"):
        services_actions.make_stream(actor, application, name)
    with pytest.raises(ValidationError, match="--max-instances N"):
        services_actions.make_stream(actor, application, "hall/cam")
    with pytest.raises(CommandError, match="has 1"):
        run("streamkey", "create", "live/hall/cam")
    assert Stream.objects.count() == 3


def test_key_import_with_too_many_instances_is_refused_as_a_whole(application: Application, tmp_path: Path) -> None:
    Application.objects.update(max_instances=2)
    table = tmp_path / "keys.csv"
    rows = [f"live/{instance}/cam,existing-key-{instance}" for instance in ("a", "b", "c")]
    table.write_text("\n".join(["app/name,key", *rows]))
    with pytest.raises(CommandError, match="may have 2 instances"):
        run("streamkey", "import", str(table))
    table.write_text("\n".join(["app/name,key", *rows[:2]]))
    run("streamkey", "import", str(table))
    assert authorization.instance_names(application=application) == {"a", "b"}


def test_printed_urls_of_an_instance_stream_contain_the_instance(inside: NewKey, settings: Any) -> None:
    settings.RTMP_ADDRESS, settings.MEDIA_ADDRESS = ("127.0.0.1", 1935), ("127.0.0.1", 8001)
    shown = media_urls.strings(stream=inside.key.stream, secret=inside.secret)
    assert (shown.stream, shown.server) == ("live/room/cam", "rtmp://127.0.0.1/live/room")
    assert shown.publish_url == f"rtmp://127.0.0.1/live/room/{inside.secret}"
    assert shown.play_url == "rtmp://127.0.0.1/live/room/cam"
    link = media_urls.make_play_link(inside.key.stream)
    assert link.flv_url.startswith("http://127.0.0.1:8001/live/live/room/cam.flv?token=")


def test_download_name_of_an_instance_recording_has_no_slash(application: Application) -> None:
    film = Recording(application=application, name="room/cam", file="a.flv", started_at=NOW)
    assert recordings.download_name(film) == "live-room-cam-20260301T120000Z.flv"


def test_each_instance_has_its_own_shared_objects(application: Application) -> None:
    def load(app: str) -> dict[str, bytes]:
        return shared_objects.load_object(app=app, name="chat", unwritten=None)[1]

    rows = [ObjectRow(app, "chat", 1, NOW, {"where": app.encode()}) for app in ("live", "live/room")]
    with transaction.atomic():
        shared_objects.save_object([*rows, ObjectRow("live/room", "chat", 2, NOW, {"more": b"1"})])
    assert load("live") == {"where": b"live"}
    assert load("live/room") == {"where": b"live/room", "more": b"1"}
    assert load("live/hall") == {}


# --- On the wire ---


async def test_a_connection_to_an_instance_sees_its_streams(inside: NewKey) -> None:
    async with (
        listening() as port,
        RtmpClient(port=port) as encoder,
        RtmpClient(port=port) as within,
        RtmpClient(port=port) as outside,
        RtmpClient(port=port) as wrong,
    ):
        await go_live(encoder, inside.secret, "live/room")
        (started,) = encoder.of(events.StatusReceived)
        assert started.description == "cam is now published."
        await watch_live(within, "cam", "live/room")
        await watch_live(outside, "room/cam")
        for player in (within, outside):
            await player.wait_count(events.VideoReceived, 2)
        await wrong.connect("live/room")
        with pytest.raises(Refused, match="StreamNotFound"):
            await wrong.play("other")
    await until(lambda: Session.objects.filter(end_reason="").count() == 0)
    assert {(row.app, row.name) async for row in Session.objects.all()} == {("live", "room/cam")}
    attempt = await Attempt.objects.aget()
    assert (attempt.app, attempt.name) == ("live", "room/other")


async def test_refused_instance_name_is_masked_in_the_attempt(inside: NewKey) -> None:
    """It may be a key that this server doesn't know."""
    encoder = Connection(app="live/oldserver-key-1")
    assert (await encoder.connect())["code"] == "NetConnection.Connect.InvalidApp"
    await encoder.disconnect("rejected")
    flush()
    attempt = await Attempt.objects.aget()
    assert (attempt.app, attempt.reason) == ("live/…", "instance_unknown")


async def test_ffmpeg_publishes_and_plays_by_urls_of_three_parts(application: Application, tmp_path: Path) -> None:
    """And has its instance by that, in an open application."""
    require_tool("ffmpeg")
    await Application.objects.aupdate(publish_policy="open")
    clip, out = make_clip(tmp_path / "clip.flv", seconds=2), tmp_path / "out.flv"
    copy = ("-c", "copy", "-f", "flv")
    quiet = ("ffmpeg", "-nostdin", "-v", "error")
    async with listening() as port:
        url = f"rtmp://127.0.0.1:{port}/live/room/cam"
        player = await asyncio.create_subprocess_exec(*quiet, "-i", url, "-t", "1", *copy, str(out))
        try:
            await until(lambda: Session.objects.filter(kind="play", name="room/cam").exists())
            publisher = await asyncio.create_subprocess_exec(*quiet, "-re", "-i", str(clip), *copy, url)
            assert await asyncio.wait_for(publisher.wait(), 20) == 0
            assert await asyncio.wait_for(player.wait(), 20) == 0
        finally:
            if player.returncode is None:
                player.kill()
                await player.wait()
    assert (await sync_to_async(Stream.objects.select_related("application").get)()).path == "live/room/cam"
    sent, seen = [of_kind(await asyncio.to_thread(read_packets, str(file)), "video") for file in (clip, out)]
    assert seen
    assert seen == sent[: len(seen)]
