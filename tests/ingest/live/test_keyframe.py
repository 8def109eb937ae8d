"""The keyframe that thumbnails are made of: taken from what late players are given, when somebody asks."""

from ingest.live import LiveSettings
from ingest.live.gop_cache import Keyframe
from ingest.live.stream_log import LogLimits
from tests.ingest.live.payloads import AAC_HEADER, avc_header, inter, keyframe, make_stream, publisher, sound

MOST = 1_000_000


def test_the_last_keyframe_comes_with_the_headers_of_video() -> None:
    stream = make_stream()
    stream.start(publisher(), 0.0)
    stream.audio(0, AAC_HEADER, 0.0)
    stream.video(0, avc_header(), 0.0)
    assert stream.keyframe(-1.0, MOST) is None
    stream.video(0, keyframe(1), 0.0)
    stream.video(33, inter(2), 0.03)
    assert stream.keyframe(-1.0, MOST) == Keyframe(0.0, [avc_header()], keyframe(1))
    stream.video(2000, keyframe(3), 2.0)
    stream.audio(2010, sound(4), 2.01)
    assert stream.keyframe(0.0, MOST) == Keyframe(2.0, [avc_header()], keyframe(3))
    assert stream.keyframe(2.0, MOST) is None, "the same again"
    stream.stop("session-1", 3.0)
    assert stream.keyframe(-1.0, MOST) is None


def test_one_that_is_too_long_is_not_copied() -> None:
    stream = make_stream(LiveSettings(log=LogLimits(size_bytes=5000)))
    stream.start(publisher(), 0.0)
    stream.video(0, keyframe(1, 4000), 0.0)
    assert stream.keyframe(-1.0, 3999) is None
    assert stream.keyframe(-1.0, 4000) is not None
    stream.video(33, keyframe(1, 6000), 1.0)
    assert stream.keyframe(-1.0, MOST) is None
