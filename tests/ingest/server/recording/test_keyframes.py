"""Where a recording begins in a stream whose keyframes come late or never. Its seconds are made up, being many."""

from dataclasses import replace
from pathlib import Path

import pytest

from ingest.server.recording.recorder import Recorder
from ingest.server.recording.recorders import Recorders
from ingest.server.recording.recording import Order
from ingest.server.recording.reports import Report
from ingest.server.recording.settings import QUEUE, RecordingSettings
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
