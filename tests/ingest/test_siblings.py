"""What workers tell one another: all of it to one that comes late, nothing to one that doesn't read."""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ingest import siblings
from ingest.services.bans import Guard
from ingest.siblings import Siblings
from tests.server.waiting import becomes

NOW = 1_800_000_000.0
PEER = "192.0.2.7"


class Notes:
    """A topic: what each worker has noted."""

    def __init__(self, *own: str) -> None:
        self.own = list(own)
        self.heard: dict[int, list[str]] = {}

    def told(self, worker: int, what: Any) -> None:
        self.heard.setdefault(worker, []).append(what)

    def gone(self, worker: int) -> None:
        self.heard.pop(worker, None)

    def everything(self) -> Iterable[str]:
        return list(self.own)


class Worker:
    def __init__(self, folder: Path, number: int, *own: str, of: int = 3) -> None:
        self.notes, self.guard = Notes(*own), Guard(guesses=4, ban_s=600.0)
        self.siblings = Siblings(number, {each: folder / f"{each}.worker" for each in range(1, of + 1)})
        self._tell = self.siblings.share("notes", self.notes)
        self.guard.tell = self.siblings.share("guesses", self.guard)

    def note(self, what: str) -> None:
        self.notes.own.append(what)
        self._tell(what)


@asynccontextmanager
async def running(*workers: Worker) -> AsyncIterator[None]:
    for worker in workers:
        await worker.siblings.start()
    try:
        yield
    finally:
        for worker in workers:
            await worker.siblings.close()


async def test_each_worker_receives_former_and_new_notes_of_the_others(tmp_path: Path) -> None:
    first, second, third = (Worker(tmp_path, number, f"old-{number}") for number in (1, 2, 3))
    async with running(first, second):
        await becomes(lambda: first.notes.heard == {2: ["old-2"]} and second.notes.heard == {1: ["old-1"]})
        first.note("new")
        await becomes(lambda: second.notes.heard == {1: ["old-1", "new"]})
        async with running(third):  # It is told at once, not when the others try again.
            await becomes(lambda: third.notes.heard == {1: ["old-1", "new"], 2: ["old-2"]})
            await becomes(lambda: first.notes.heard == {2: ["old-2"], 3: ["old-3"]})
        await becomes(lambda: first.notes.heard == {2: ["old-2"]})


async def test_restarted_worker_is_known_by_its_current_notes_only(tmp_path: Path) -> None:
    first = Worker(tmp_path, 1)
    async with running(first):
        for own in ("before", "after"):
            async with running(Worker(tmp_path, 2, own)):
                await becomes(lambda own=own: first.notes.heard == {2: [own]})  # type: ignore[misc]


async def test_worker_that_does_not_read_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "UNREAD_BYTES", 64 * 1024)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "2.worker"))
        deaf.listen(0)
        first, third = Worker(tmp_path, 1), Worker(tmp_path, 3)
        async with running(first, third):
            await becomes(lambda: len(first.siblings._told_to) == 2)
            for number in range(2000):
                first.note(f"{number} " + 1000 * "x")
                await asyncio.sleep(0)
            await becomes(lambda: len(third.notes.heard.get(1, ())) == 2000)
            assert 2 not in first.siblings._told_to


async def test_invalid_sibling_connection_is_closed_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Worker(tmp_path, 1)
    async with running(first):
        for said in (b"nonsense\n", b'9\n["notes","x"]\n', b'2\n["other","x"]\n', b"2\n{}\n"):
            reader, writer = await asyncio.open_unix_connection(tmp_path / "1.worker")
            writer.write(said)
            assert await reader.read() == b""
            writer.close()
        for said in (b"", b"2", b'2\n["notes",'):  # One that was killed.
            _, writer = await asyncio.open_unix_connection(tmp_path / "1.worker")
            writer.write(said)
            writer.close()
            await writer.wait_closed()
        await becomes(lambda: not first.siblings._hearing)
        assert first.notes.heard == {}
    assert len(caplog.records) == 4
    assert not any(record.exc_info for record in caplog.records)


async def test_different_wrong_secrets_count_over_all_workers(tmp_path: Path) -> None:
    first, second = Worker(tmp_path, 1, of=2), Worker(tmp_path, 2, of=2)
    async with running(first):
        assert not first.guard.wrong(PEER, "key-1", NOW)
        async with running(second):
            await becomes(lambda: second.guard.sizes[1] == 1)
            assert not second.guard.wrong(PEER, "key-2", NOW + 1)
            assert not second.guard.wrong(PEER, "key-1", NOW + 1), "the same again is no further guess"
            await becomes(lambda: first.guard.sizes[1] == 2)
            assert not first.guard.wrong(PEER, "key-3", NOW + 2)
            await becomes(lambda: second.guard.sizes[1] == 3)
            assert second.guard.wrong(PEER, "key-4", NOW + 3) == 4
            await becomes(lambda: first.guard.banned_until(PEER, NOW + 4) == NOW + 603)
            assert first.guard.sizes[0] == 0
            late = Worker(tmp_path, 2, of=2)
        async with running(late):
            await becomes(lambda: late.guard.banned_until(PEER, NOW + 4) == NOW + 603)


async def test_no_secret_leaves_a_process(tmp_path: Path) -> None:
    first = Worker(tmp_path, 1, of=2)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "2.worker"))
        listening.listen()
        async with running(first):
            await becomes(lambda: len(first.siblings._told_to) == 1)
            connected = listening.accept()[0]
            with connected:
                first.guard.wrong(PEER, "a-secret-of-somebody", NOW)
                await asyncio.sleep(0)
                connected.settimeout(5)
                said = b""
                while PEER.encode() not in said:
                    said += await asyncio.to_thread(connected.recv, 65536)
                assert b"a-secret-of-somebody" not in said


def test_a_long_path_of_the_data_folder_has_its_sockets_elsewhere() -> None:
    from ingest.services import data_folder

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / ("long" * 25)
        folder.mkdir()
        found = data_folder.make_socket_folder(folder)
        try:
            assert not found.is_relative_to(folder)
            assert found.stat().st_mode & 0o077 == 0
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(data_folder.node_socket(folder, "node" * 32, "worker")))
        finally:
            for left in found.iterdir():
                left.unlink()
            found.rmdir()
