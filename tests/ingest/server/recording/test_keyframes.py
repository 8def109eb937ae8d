"""Where a recording begins in a stream whose keyframes come late or never. Its seconds are made up, being many."""

from dataclasses import replace
from pathlib import Path

import pytest

from ingest.flv.recording import Report
from ingest.live.message import SharedMessage
from ingest.server.config import QUEUE, RecordingSettings
from ingest.server.recorder import Recorder, Recorders
from ingest.server.recording_writer import Order, Recording
from tests.ingest.live.payloads import AVC_HEADER, START_WALL, inter, keyframe, make_stream, publisher
from tests.ingest.server.recording.conftest import media, tags_of


@pytest.mark.parametrize(("keyframes", "expected"), [((), inter(110)), ((0,), keyframe(0)), ((7,), keyframe(70))])
async def test_a_stream_with_a_keyframe_or_none(tmp_path: Path, keyframes: tuple[int, ...], expected: bytes) -> None:
    """`keyframes`: with which seconds one comes."""
    reports: list[Report] = []
    settings = RecordingSettings(folder=tmp_path, min_free_bytes=0, queue=replace(QUEUE, seconds=60.0))
    recorders = Recorders(settings, lambda _event: True)
    stream = make_stream()
    stream.start(publisher(), 0.0)
    stream.video(0, AVC_HEADER, 0.0)
    recorder: Recorder = recorders.begin(Order("live", "demo", "record"), stream, 0.0, reports.append)
    for number in range(130):
        at = number / 10
        make = keyframe if number in [10 * second for second in keyframes] else inter
        stream.video(100 * number, make(number), at)
        if number % 10 == 9:
            stream.tick(at + 0.1, START_WALL + at)
    recorder.stop()
    await recorders.close(5.0)
    (closed,) = [report for report in reports if report.state == "closed"]
    tags = media(tags_of(tmp_path / closed.file))
    assert [payload for _, _, payload in tags][:2] == [AVC_HEADER, expected]
    assert tags[-1][2] == inter(129)


@pytest.mark.parametrize(
    ("keyframes", "expected"),
    [
        ((0, 2, 4, 38, 70), [keyframe(2), keyframe(4), keyframe(38), keyframe(70)]),
        ((0, 2, 4), [keyframe(2), keyframe(4), *(inter(at) for at in range(65, 90))]),
        ((0,), [inter(at) for at in range(61, 90)]),
        ((), [inter(at) for at in range(1, 90)]),
    ],
    ids=["still scenes", "none any more", "none but the first", "none"],
)
def test_a_full_file_is_followed_by_one_that_begins_with_a_keyframe(
    tmp_path: Path, keyframes: tuple[int, ...], expected: list[bytes]
) -> None:
    """As long as one comes each minute. `keyframes`: in which seconds; each file is full with its first picture."""
    settings = RecordingSettings(folder=tmp_path, min_free_bytes=0, rotate_bytes=1)
    recording = Recording(Order("live", "demo", "all"), settings)
    pictures = [
        SharedMessage("video", 1000 * at, (keyframe if at in keyframes else inter)(at), at, True, at in keyframes)
        for at in range(90)
    ]
    reports = recording.write(pictures, 0) + recording.close(0)
    files = [report.file for report in reports if report.state == "started"]
    first, *others = [media(tags_of(tmp_path / file))[0][2] for file in files]
    assert (first, others) == (pictures[0].payload, expected)
