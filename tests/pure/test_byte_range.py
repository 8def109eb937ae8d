import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.byte_range import NoSuchRange, read_range


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ("bytes=0-9", (0, 10)),
        ("bytes=10-", (10, 100)),
        ("bytes=99-", (99, 100)),
        ("bytes=-5", (95, 100)),
        ("bytes=-500", (0, 100)),
        ("bytes=90-500", (90, 100)),
        ("bytes= 5 - 5", (5, 6)),
        ("bytes=0-1,5-6", None),
        ("bytes=9-1", None),
        ("bytes=900-1", None),
        ("lines=1-2", None),
        ("bytes=-", None),
        ("", None),
    ],
)
def test_range_header_is_clamped_to_the_file_or_ignored_if_malformed(field: str, found: tuple[int, int] | None) -> None:
    assert read_range(field, 100) == found


@pytest.mark.parametrize("field", ["bytes=100-", "bytes=500-600", "bytes=-0"])
def test_range_beyond_the_end_of_the_file_is_refused(field: str) -> None:
    with pytest.raises(NoSuchRange) as raised:
        read_range(field, 100)
    assert raised.value.size == 100


@given(st.text(max_size=40) | st.from_regex(r"bytes=\d*-\d*"), st.integers(0, 1 << 40))
def test_accepted_range_always_lies_within_the_file(field: str, size: int) -> None:
    try:
        found = read_range(field, size)
    except NoSuchRange:
        return
    assert found is None or 0 <= found[0] < found[1] <= size
