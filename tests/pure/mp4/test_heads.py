"""Heads that are kept beside recordings: for whom they are true, and which go."""

import os
import time
from pathlib import Path

import pytest

from ingest.mp4 import heads as module
from ingest.mp4.heads import FOLDER, Heads, Version, head_path, remove_head, version_of

VERSION = Version(1000, 5)


@pytest.fixture
def heads(tmp_path: Path) -> Heads:
    return Heads(tmp_path, most_bytes=10_000, most_files=3)


def kept(heads: Heads, name: str, version: Version = VERSION) -> bytes | None:
    """The head that is found, with how much of the recording follows."""
    found = heads.find(heads.folder / name, version)
    if found is None:
        return None
    with found.stream as stream:
        assert found.media_bytes == 900
        return os.pread(stream.fileno(), found.size, found.begins_at)


def test_head_is_found_only_for_its_recording_and_version(heads: Heads) -> None:
    heads.keep(heads.folder / "live/a.flv", VERSION, 900, b"head of a")
    assert kept(heads, "live/a.flv") == b"head of a"
    assert kept(heads, "live/b.flv") is None
    assert kept(heads, "live/a.flv", Version(1001, 5)) is None
    assert kept(heads, "live/a.flv", Version(1000, 6)) is None
    heads.keep(heads.folder / "live/a.flv", Version(1001, 5), 900, b"longer")
    assert kept(heads, "live/a.flv", Version(1001, 5)) == b"longer"
    assert len(list((heads.folder / FOLDER).iterdir())) == 1


def test_head_of_another_format_is_not_found(heads: Heads, monkeypatch: pytest.MonkeyPatch) -> None:
    heads.keep(heads.folder / "a.flv", VERSION, 900, b"head")
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    assert kept(heads, "a.flv") is None


@pytest.mark.parametrize("content", [b"", b"RWMP", bytes(500)])
def test_incomplete_head_file_is_not_found(heads: Heads, content: bytes) -> None:
    path = head_path(heads.folder, heads.folder / "a.flv")
    path.parent.mkdir()
    path.write_bytes(content)
    assert kept(heads, "a.flv") is None


def used(heads: Heads, name: str, ago_s: float) -> None:
    at = time.time() - ago_s
    os.utime(head_path(heads.folder, heads.folder / name), (at, at))


def test_least_recently_used_heads_are_removed_when_there_are_too_many(heads: Heads) -> None:
    for number, name in enumerate(("a", "b", "c")):
        heads.keep(heads.folder / name, VERSION, 900, b"head")
        used(heads, name, 10_000 - number)
    assert kept(heads, "a") == b"head", "which is a use"
    heads.keep(heads.folder / "d", VERSION, 900, b"head")
    assert [name for name in "abcd" if kept(heads, name)] == ["a", "c", "d"]


def test_least_recently_used_heads_are_removed_when_they_are_too_large(heads: Heads) -> None:
    for name, size in (("a", 6000), ("b", 3000), ("c", 4000)):
        heads.keep(heads.folder / name, VERSION, 900, bytes(size))
        used(heads, name, {"a": 300, "b": 200, "c": 100}[name])
    assert [name for name in "abc" if kept(heads, name)] == ["b", "c"]
    heads.keep(heads.folder / "d", VERSION, 900, bytes(20_000))
    assert [name for name in "abcd" if kept(heads, name)] == ["d"], "what was just made stays until the next"


def test_head_is_removed_with_its_recording(heads: Heads) -> None:
    recording = heads.folder / "a.flv"
    recording.write_bytes(b"FLV")
    with recording.open("rb") as stream:
        heads.keep(recording, version_of(stream), 900, b"head")
    remove_head(heads.folder, recording)
    assert list((heads.folder / FOLDER).iterdir()) == []
    remove_head(heads.folder, recording)
