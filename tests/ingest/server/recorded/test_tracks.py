"""Recordings with several tracks and extensions: sent as they are to who says in `capsEx` that it understands them."""

from pathlib import Path

import pytest

from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.media import AAC_HEADER, AVC_HEADER, key_frame, sound
from tests.ingest.server.recorded.files import AUDIO, VIDEO, Made, record, write
from tests.ingest.server.recorded.viewer import HOURS_MS, Viewer

OTHER_HEADER = bytes.fromhex("960061766331 01") + b"header"
OTHER_SOUND = bytes.fromhex("95014f707573 01") + b"sound"
EXTENDED = bytes.fromhex("a7 020003e801 61766331 000000") + b"picture"
PLAIN = bytes.fromhex("a1 61766331 000000") + b"picture"

FILE: Made = [
    (VIDEO, 0, AVC_HEADER),
    (VIDEO, 0, OTHER_HEADER),
    (AUDIO, 0, AAC_HEADER),
    (VIDEO, 0, key_frame(0)),
    (AUDIO, 7, sound(0)),
    (AUDIO, 7, OTHER_SOUND),
    (VIDEO, 40, EXTENDED),
    (VIDEO, 2000, key_frame(1)),
    (AUDIO, 2007, sound(1)),
]


FROM_2000 = [AVC_HEADER, OTHER_HEADER, AAC_HEADER, key_frame(1), sound(1)]


@pytest.mark.parametrize(
    ("start", "sent"), [(0, [payload for _, _, payload in FILE]), (2000, FROM_2000)], ids=["all", "a part"]
)
@pytest.mark.parametrize("caps_ex", [0, 15])
async def test_what_is_sent(
    app: ScriptedApplication, port: int, tmp_path: Path, caps_ex: int, start: int, sent: list[bytes]
) -> None:
    record(app, write(tmp_path / "clip.flv", FILE))
    async with Viewer(port=port) as viewer:
        await viewer.connect("live", capsEx=caps_ex)
        viewer.stream_id = await viewer.create_stream()
        viewer.protocol.play(viewer.stream_id, "clip", start, -1)
        viewer.protocol.set_buffer_length(viewer.stream_id, HOURS_MS)
        await viewer.flush()
        await viewer.until_over()
        got = [payload for _, _, payload in viewer.media()]
    if caps_ex:
        assert got == sent
    else:
        plain = [PLAIN if payload == EXTENDED else payload for payload in sent]
        assert got == [payload for payload in plain if payload not in (OTHER_HEADER, OTHER_SOUND)]
