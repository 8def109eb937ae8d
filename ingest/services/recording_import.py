"""Recordings that come from elsewhere: FLV as it is, other containers remuxed to it by FFmpeg's libraries."""

import os
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from ingest.flv import FlvError, FlvIndex, read_index
from ingest.flv.recording import MODE, recording_path
from ingest.models import Recording, Stream
from ingest.services.recordings import RecordingProblem, folder

NUMBERS = 100
"""Of files that are imported in the same second under the same name."""

PART = ".part"
"""Ends the name of a file that is not whole yet."""

KINDS = ("video", "audio")
"""FLV has one of each."""


def add(*, stream: Stream, name: str, source: Path) -> Recording:
    """Copies the file into the folder, as a recording of that name which takes the place of a former one.

    May take minutes. Raises RecordingProblem, OSError.
    """
    began = time.time()
    application = stream.application
    first = folder() / recording_path(application.name, name, began)
    first.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(PART, f".{first.name}.", first.parent)
    part = Path(made)
    try:
        os.fchmod(descriptor, MODE)
        if _is_flv(source):
            shutil.copyfile(source, part)
        else:
            _remux(source, part)
        index = _index(part)
        os.fsync(descriptor)
        path = _reserved(application.name, name, began)
        os.rename(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    return Recording.objects.create(
        application=application,
        stream=stream,
        name=name,
        file=path.relative_to(folder()).as_posix(),
        state=Recording.State.COMPLETE,
        replaces=True,
        description=f"Imported from {source.name}."[:255],
        started_at=datetime.fromtimestamp(began, UTC),
        ended_at=datetime.now(UTC),
        duration_ms=index.duration_ms,
        size_bytes=path.stat().st_size,
    )


def _reserved(app: str, name: str, began: float) -> Path:
    """An empty file under the first number that is free: a stream may be recorded since the same second."""
    for number in range(1, NUMBERS + 1):
        path = folder() / recording_path(app, name, began, number)
        try:
            path.touch(MODE, exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise RecordingProblem(f"{NUMBERS} recordings of the stream began in the same second.")


def _is_flv(source: Path) -> bool:
    with source.open("rb") as stream:
        return stream.read(3) == b"FLV"


def _index(path: Path) -> FlvIndex:
    try:
        with path.open("rb") as stream:
            index = read_index(stream)
    except FlvError as error:
        raise RecordingProblem(f"The file can't be used: {error}.") from None
    if index.at_or_before(0) is None:
        raise RecordingProblem("The file can't be used: it has neither audio nor video.")
    return index


def _remux(source: Path, target: Path) -> None:
    """The first video and the first audio of a file into FLV, with an index of keyframes; nothing is coded anew."""
    import av  # Loads FFmpeg's libraries, which no other part of the server needs.

    try:
        with (
            av.open(str(source)) as source_file,
            av.open(str(target), "w", format="flv", options={"flvflags": "add_keyframe_index"}) as target_file,
        ):
            tracks = {
                found[0]: target_file.add_stream_from_template(found[0])
                for kind in KINDS
                if (found := [track for track in source_file.streams if track.type == kind])
            }
            if not tracks:
                raise RecordingProblem("The file can't be used: it has neither audio nor video.")
            for packet in source_file.demux(list(tracks)):
                if packet.dts is not None:  # The last of each track says only that there are no more.
                    packet.stream = tracks[packet.stream]
                    target_file.mux(packet)
    except (av.error.FFmpegError, ValueError) as error:
        raise RecordingProblem(f"The file can't be brought into FLV: {error}.") from None
