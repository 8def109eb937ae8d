"""The spool: an append-only file of what has not yet become Parquet, and the request to turn it into that now.

Layout: the magic `RTWSPOOL`, then frames. A frame is two little-endian 32-bit numbers, the payload's length in bytes
and its CRC-32, then the payload. The first frame's payload is the Arrow schema, each further one an Arrow record batch,
both in Arrow's IPC message format. A file cut short by `kill -9` ends in a torn frame: reading stops before it.

A frame is handed to the operating system as soon as it is appended, so the death of the process loses nothing that was
appended. It is not fsynced: a machine that loses its power may lose what the kernel had not yet written (commonly up to
30 s), since an fsync each second would cost a disk more than the figures of that second are worth.

Its writer holds an exclusive lock (flock) on the file for as long as it may append or convert it: an unlocked spool
belongs to a writer that is gone, and whoever locks it may recover it.

A flush is requested by the modification time of the file `.flush-request` in the lake; writers look at it each second.
It needs nothing but the shared folder, and so works for all nodes, whatever process or host they are in."""

import contextlib
import fcntl
import os
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"RTWSPOOL"
FRAME = struct.Struct("<II")
SUFFIX = ".spool"
MAKING = ".making"
"""Until the file is locked and its schema is written."""
MAKING_S = 60.0
"""Nobody needs that long for it, on whatever disk."""
MAX_FRAME_BYTES = 1 << 30


class BadSpool(Exception):  # noqa: N818
    """The file is no spool, or its schema can't be read."""


def spool_folder(lake: Path) -> Path:
    """Where a lake's spools are. Spark does not read names that begin with a dot."""
    return lake / ".spool"


class Spool:
    """One locked spool file: `create` a new one to append to, or `claim` an abandoned one to recover."""

    def __init__(self, path: Path, descriptor: int, size_bytes: int) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._descriptor = descriptor

    @classmethod
    def create(cls, path: Path, schema: "pa.Schema") -> Self:
        """A new file with its schema written. Raises OSError.

        It gets its name when it is locked and whole: before, others would take it for one whose writer is gone.
        """
        making = path.with_suffix(MAKING)
        descriptor = os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            spool = cls(path, descriptor, 0)
            spool._write(MAGIC + _frame(schema.serialize()))
            making.rename(path)
        except BaseException:
            making.unlink(missing_ok=True)
            os.close(descriptor)
            raise
        return spool

    @classmethod
    def claim(cls, path: Path) -> Self | None:
        """Locks a spool that nobody holds; None when its writer lives or someone else has just dealt with it."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if not status.st_nlink:
            os.close(descriptor)
            return None
        return cls(path, descriptor, status.st_size)

    def append(self, batch: "pa.RecordBatch") -> None:
        """Adds a batch whole or not at all. Raises OSError (a full disk)."""
        self._write(_frame(batch.serialize()))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        offset = self.size_bytes
        try:
            while view:
                written = os.pwrite(self._descriptor, view, offset)
                view = view[written:]
                offset += written
        except OSError:
            with contextlib.suppress(OSError):  # A torn tail is tolerated by the reader, but nothing may follow it:
                os.ftruncate(self._descriptor, self.size_bytes)  # the next append writes over it in any case.
            raise
        self.size_bytes = offset

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Lets go of the file, which stays for the next start's recovery."""
        os.close(self._descriptor)


def remove_partial(folder: Path, table: str) -> None:
    """Deletes what writers left that were killed while they made a spool: nothing was recorded in it yet."""
    for path in folder.glob(f"{table}.*{MAKING}"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > MAKING_S:
                path.unlink()


def read_spool(path: Path) -> "tuple[pa.Schema, list[pa.RecordBatch]]":
    """All whole batches of a spool, whoever holds it. Raises BadSpool and OSError (FileNotFoundError: converted)."""
    import pyarrow as pa  # Only where there is something to read (see schema.py).

    data = path.read_bytes()
    if not data.startswith(MAGIC):
        raise BadSpool(f"{path.name}: not a spool")
    payloads = _frames(memoryview(data)[len(MAGIC) :])
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(next(payloads)))
        return schema, [pa.ipc.read_record_batch(pa.py_buffer(payload), schema) for payload in payloads]
    except (StopIteration, pa.ArrowInvalid, OSError) as error:
        raise BadSpool(f"{path.name}: {error or 'no schema'}") from error


def _frame(buffer: "pa.Buffer") -> bytes:
    payload: bytes = buffer.to_pybytes()
    return FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def _frames(data: memoryview) -> Iterator[memoryview]:
    while len(data) >= FRAME.size:
        length, check = FRAME.unpack(data[: FRAME.size])
        payload = data[FRAME.size : FRAME.size + length]
        if length > MAX_FRAME_BYTES or len(payload) < length or zlib.crc32(payload) != check:
            return
        yield payload
        data = data[FRAME.size + length :]


REQUEST = ".flush-request"
POLL_S = 0.05


def request_time(lake: Path) -> int:
    """When the last request was made, in nanoseconds; 0: never."""
    try:
        return (lake / REQUEST).stat().st_mtime_ns
    except OSError:
        return 0


def request_flush(lake: Path, *, wait_s: float = 5.0) -> bool:
    """Asks, then waits until every spool that a living writer held at that time is converted. False: some were not.

    The spool of a writer that died is not waited for: a node's next start recovers it.
    """
    lake.mkdir(parents=True, exist_ok=True)
    held = {path for path in spool_folder(lake).glob(f"*{SUFFIX}") if not _abandoned(path)}
    (lake / REQUEST).touch()
    deadline = time.monotonic() + wait_s
    while held := {path for path in held if path.exists()}:
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def _abandoned(path: Path) -> bool:
    spool = Spool.claim(path)
    if spool is None:
        return False
    spool.release()
    return True
