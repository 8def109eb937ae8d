"""From the project's settings to the RTMP server's configuration."""

import pytest
from pytest_django import Settings

from ingest.consumers.startup import server_config

MIB = 1024 * 1024


@pytest.mark.parametrize("mib", [1, 10, 16])
def test_longest_media_message(settings: Settings, mib: int) -> None:
    """With room for what else may be unfinished beside it; and a player's queue takes one."""
    settings.MAX_MESSAGE_MIB = mib
    config = server_config(("127.0.0.1", 0))
    assert config.limits.media_message_bytes == mib * MIB
    assert config.limits.partial_bytes == (mib + 6) * MIB
    assert config.queue.size_bytes == max(8, mib + 1) * MIB


@pytest.mark.parametrize("seconds", [0, 90])
def test_how_long_an_encoder_may_wait(settings: Settings, seconds: int) -> None:
    settings.WAITING_S = seconds
    assert server_config(("127.0.0.1", 0)).deadlines.waiting_s == seconds


def test_when_players_are_told_of_the_end(settings: Settings) -> None:
    assert server_config(("127.0.0.1", 0)).deadlines.end_players_s == 15, "longer than encoders need to come back"
    settings.END_PLAYERS_S = 0.0
    assert server_config(("127.0.0.1", 0)).deadlines.end_players_s == 0


def test_memory_for_late_players(settings: Settings) -> None:
    settings.CACHE_MIB = 64
    assert server_config(("127.0.0.1", 0)).live.caches_bytes == 64 * MIB
