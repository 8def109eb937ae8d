"""Frames that are marked by their first bytes alone are marked as if they were read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.flv import seek_points
from ingest.flv.seek_points import SeekIndex
from ingest.rtmp.limits import DEFAULT_LIMITS

FIRST = st.sampled_from([0x17, 0x27, 0x37, 0x2C, 0x2D, 0x57, 0xAF, 0xA0, 0x2F, 0x91, 0xA1])
PAYLOADS = st.builds(lambda first, rest: bytes((first, *rest)), FIRST, st.binary(max_size=12)) | st.binary(max_size=3)


@given(st.lists(st.tuples(st.sampled_from([8, 9]), st.integers(0, 5000), PAYLOADS), max_size=30))
def test_what_is_not_read_is_marked_alike(tags: list[tuple[int, int, bytes]]) -> None:
    def marked() -> SeekIndex:
        found = SeekIndex(DEFAULT_LIMITS)
        for place, (type_id, timestamp, payload) in enumerate(tags):
            found.add(type_id, timestamp, payload, 100 * place)
        return found

    quickly = marked()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seek_points, "PLAIN_PICTURES", frozenset())
        patch.setattr(seek_points, "PLAIN_SOUNDS", frozenset())
        slowly = marked()
    for name in ("has_audio", "has_video", "is_plain", "duration_ms", "headers", "points", "_has_frames", "_track"):
        assert getattr(quickly, name) == getattr(slowly, name), name
