"""`manage.py recording`, and recordings in the admin."""

import shutil
from functools import partial
from pathlib import Path

import av
import pytest
from django.core.management.base import CommandError
from django.urls import reverse

from ingest.flv import read_index
from ingest.flv.recording import recording_path
from ingest.models import Recording, Stream
from ingest.mp4.heads import Heads, Version
from ingest.services.roles import ROLES
from tests.ingest import operators
from tests.ingest.operators import member, run
from tests.ingest.recordings.conftest import Make, flv
from tests.media import make_clip, of_kind, read_packets
from tests.tools import require_tool

run_json = partial(operators.run_json, "recording")


def test_list_shows_recordings_newest_first(make: Make) -> None:
    make(name="cam1", days=2)
    newer = make(name="cam2", days=1)
    found = run_json("list")
    assert [item["name"] for item in found["items"]] == ["cam2", "cam1"]
    assert found["count"] == 2
    assert run_json("list", "other")["count"] == 0
    with pytest.raises(CommandError, match="APP/NAME"):
        run("recording", "list", "live/")
    assert f"{newer.pk}  live/cam2  complete" in run("recording", "list", "live/cam1")


def test_delete_takes_the_file_too(make: Make, folder: Path) -> None:
    row = make()
    assert run_json("delete", str(row.pk))["id"] == row.pk
    assert not Recording.objects.exists()
    assert not (folder / row.file).exists()
    with pytest.raises(CommandError, match="no recording"):
        run("recording", "delete", str(row.pk))


def test_keep_command_sets_and_clears_the_flag(make: Make) -> None:
    row = make()
    assert run_json("keep", str(row.pk))["keep"]
    assert not run_json("keep", str(row.pk), "--off")["keep"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "show.flv"
    path.write_bytes(flv(3))
    return path


def test_add_takes_flv_as_it_is(stream: Stream, folder: Path, source: Path) -> None:
    made = run_json("add", "live/show", str(source))
    assert (made["name"], made["stream"], made["state"]) == ("show", "show", "complete")
    assert made["duration_ms"] == 2907
    assert (folder / made["file"]).read_bytes() == source.read_bytes()


def test_add_leaves_what_was_recorded_meanwhile(
    stream: Stream, folder: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copying takes minutes; a stream may be recorded since the second in which it began."""
    recorded = folder / recording_path("live", "show", 1_800_000_000.5)
    copy = shutil.copyfile

    def copy_slowly(given: Path, made: Path) -> None:
        copy(given, made)
        recorded.write_bytes(b"live")

    monkeypatch.setattr("ingest.services.recording_import.shutil.copyfile", copy_slowly)
    monkeypatch.setattr("ingest.services.recording_import.time.time", lambda: 1_800_000_000.5)
    made = run_json("add", "live/show", str(source))
    assert recorded.read_bytes() == b"live"
    assert (folder / made["file"]).read_bytes() == source.read_bytes()
    assert len(list(folder.rglob("*.*"))) == 2


def test_add_brings_mp4_into_flv(stream: Stream, folder: Path, tmp_path: Path) -> None:
    require_tool("ffmpeg")
    clip, mp4 = make_clip(tmp_path / "clip.flv", seconds=2, gop=15), str(tmp_path / "clip.mp4")
    with av.open(str(clip)) as given, av.open(mp4, "w") as made:
        tracks = {track: made.add_stream_from_template(track) for track in given.streams}
        for packet in given.demux():
            if packet.dts is not None:
                packet.stream = tracks[packet.stream]
                made.mux(packet)
    item = run_json("add", "live/cam1", mp4)
    path = folder / item["file"]
    assert item["stream"] == "cam1"
    assert item["duration_ms"] == pytest.approx(2000, abs=60)
    for kind in ("video", "audio"):
        assert of_kind(read_packets(str(path)), kind) == of_kind(read_packets(str(clip)), kind)
    with path.open("rb") as stream_:
        index = read_index(stream_)
        assert [round(point.time_ms / 500) for point in index.points] == [0, 1, 2, 3]
        assert not index.is_truncated


@pytest.mark.parametrize("content", [b"", b"FLV", b"no media at all" * 100])
def test_add_refuses_what_is_no_media(stream: Stream, folder: Path, source: Path, content: bytes) -> None:
    source.write_bytes(content)
    with pytest.raises(CommandError, match="can't be"):
        run("recording", "add", "live/cam1", str(source))
    assert not Recording.objects.exists()
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_add_names_a_file_that_is_not_there(stream: Stream, folder: Path) -> None:
    with pytest.raises(CommandError, match=r"/nowhere\.flv: No such file"):
        run("recording", "add", "live/cam1", "/nowhere.flv")


@pytest.mark.both_forms
def test_check_lists_rows_without_file_and_files_without_row(make: Make, folder: Path) -> None:
    assert "agree" in run("recording", "check")
    lost = make(name="lost")
    (folder / lost.file).unlink()
    (folder / "live" / "stray.flv").write_bytes(b"x")
    Heads(folder, 1000, 10).keep(folder / "live" / "played.flv", Version(1, 1), 1, b"a head of an MP4")
    found = run_json("check")
    assert [item["name"] for item in found["without_file"]] == ["lost"]
    assert found["without_row"] == ["live/stray.flv"]
    text = run("recording", "check")
    assert "No file" in text
    assert "No row" in text


@pytest.mark.both_forms
def test_check_mends_what_a_dead_node_left(make: Make, folder: Path) -> None:
    row = make(state="recording", ended_at=None, duration_ms=0)
    (folder / row.file).write_bytes(flv(4, finished=False) + b"\x09\x00\x10")
    assert [item["id"] for item in run_json("check")["unfinished"]] == [row.pk]
    assert run_json("check", "--mend")["mended"] == [row.pk]
    row.refresh_from_db()
    assert (row.state, row.duration_ms) == ("complete", 3907)
    assert row.ended_at is not None
    assert row.size_bytes == (folder / row.file).stat().st_size
    with (folder / row.file).open("rb") as stream:
        assert read_index(stream).metadata["duration"] == 3.907


LIST = "admin:ingest_recording_changelist"


@pytest.mark.parametrize("role", ROLES)
def test_every_role_sees_recordings_but_only_operator_and_admin_delete(make: Make, folder: Path, role: str) -> None:
    row = make(name="show")
    staff = member(role)
    assert "show" in staff.get(reverse(LIST)).content.decode()
    path = reverse("admin:ingest_recording_delete", args=[row.pk])
    may = role in {"operator", "admin"}
    assert staff.post(path, {"post": "yes"}).status_code == (302 if may else 403)
    assert (folder / row.file).exists() is not may
    assert Recording.objects.exists() is not may


def test_bulk_delete_is_refused_if_a_recording_is_still_running(make: Make, folder: Path) -> None:
    rows = [make(name="a"), make(name="b"), make(name="c", state="recording")]
    staff = member("operator")

    def delete(count: int) -> int:
        chosen = {"action": "delete_selected", "_selected_action": [row.pk for row in rows[:count]], "post": "yes"}
        return staff.post(reverse(LIST), chosen).status_code

    assert delete(3) == 403
    assert Recording.objects.count() == 3
    assert delete(2) == 302
    assert [row.name for row in Recording.objects.all()] == ["c"]
    assert [path.name for path in folder.rglob("*.flv")] == [rows[2].file.removeprefix("live/")]


def test_operator_can_set_the_keep_flag_in_the_admin(make: Make) -> None:
    row = make()
    answer = member("operator").post(reverse("admin:ingest_recording_change", args=[row.pk]), {"keep": "on"})
    assert answer.status_code == 302
    row.refresh_from_db()
    assert row.keep
