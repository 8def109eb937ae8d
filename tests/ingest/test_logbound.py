"""How many lines others can have a process log."""

from types import SimpleNamespace

import pytest

from ingest import log_records
from ingest.log_records import Bound, more


def test_so_many_in_a_span_and_the_others_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(log_records, "time", SimpleNamespace(monotonic=lambda: now_s))
    bound = Bound(2, 60.0)
    assert [bound.take() for _ in range(5)] == [0, 0, None, None, None]
    now_s = 59.9
    assert bound.take() is None
    now_s = 60.0
    assert [bound.take() for _ in range(3)] == [4, 0, None]


def test_the_words() -> None:
    assert more(0) == ""
    assert more(7) == " (and 7 more since this was logged last)"
