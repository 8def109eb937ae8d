"""Limits: from the project's settings to the RTMP server's configuration, of decisions in time, as they are promised
(other tests make them longer or shorter), and of the lines that others can have a process log."""

from types import SimpleNamespace

import pytest
from django.conf import settings
from pytest_django import Settings

from ingest import log_records
from ingest.consumers import decisions
from ingest.consumers.startup import server_config
from ingest.log_records import Bound, more
from ingest.services import callback

MIB = 1024 * 1024


@pytest.mark.parametrize("mib", [1, 10, 16])
def test_message_size_setting_sets_message_partial_and_queue_limits(settings: Settings, mib: int) -> None:
    """With room for what else may be unfinished beside it; and a player's queue takes one."""
    settings.MAX_MESSAGE_MIB = mib
    config = server_config(("127.0.0.1", 0))
    assert config.limits.media_message_bytes == mib * MIB
    assert config.limits.partial_bytes == (mib + 6) * MIB
    assert config.queue.size_bytes == max(8, mib + 1) * MIB


@pytest.mark.parametrize("seconds", [0, 90])
def test_waiting_time_setting_reaches_the_server_config(settings: Settings, seconds: int) -> None:
    settings.WAITING_S = seconds
    assert server_config(("127.0.0.1", 0)).deadlines.waiting_s == seconds


def test_end_players_and_cache_settings_reach_the_server_config(settings: Settings) -> None:
    assert server_config(("127.0.0.1", 0)).deadlines.end_players_s == 15, "longer than encoders need to come back"
    settings.END_PLAYERS_S = 0.0
    assert server_config(("127.0.0.1", 0)).deadlines.end_players_s == 0
    settings.CACHE_MIB = 64
    assert server_config(("127.0.0.1", 0)).live.caches_bytes == 64 * MIB


def test_decision_and_callback_limits_are_2_s_and_database_timeout_is_shorter() -> None:
    assert (decisions.LIMIT_S, callback.LIMIT_S) == (2.0, 2.0)
    assert settings.DATABASE_TIMEOUT_S < decisions.LIMIT_S


def test_log_bound_passes_a_number_per_span_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(log_records, "time", SimpleNamespace(monotonic=lambda: now_s))
    bound = Bound(2, 60.0)
    assert [bound.take() for _ in range(5)] == [0, 0, None, None, None]
    now_s = 59.9
    assert bound.take() is None
    now_s = 60.0
    assert [bound.take() for _ in range(3)] == [4, 0, None]
    assert more(0) == ""
    assert more(7) == " (and 7 more since this was logged last)"
