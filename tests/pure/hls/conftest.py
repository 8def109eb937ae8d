import pytest

from tests.pure.hls.feeding import Message, make_flv, messages_of


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> list[Message]:
    """Six seconds of H.264 with B-frames and AAC, a keyframe every second."""
    options = "-c:v libx264 -preset ultrafast -bf 2 -pix_fmt yuv420p -g 30 -sc_threshold 0 -c:a aac -t 6"
    return messages_of(make_flv(tmp_path_factory.mktemp("hls") / "clip.flv", options))


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> list[Message]:
    """Four seconds of another resolution."""
    options = "-c:v libx264 -preset ultrafast -bf 0 -pix_fmt yuv420p -g 30 -sc_threshold 0 -c:a aac -t 4"
    return messages_of(make_flv(tmp_path_factory.mktemp("hls") / "large.flv", options, size="640x360"))
