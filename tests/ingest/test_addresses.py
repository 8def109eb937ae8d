"""What counts as one address."""

import pytest

from ingest.addresses import unit, unit_or_itself


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_what_counts_for_an_address(address: str, expected: str) -> None:
    assert unit(address) == expected


@pytest.mark.parametrize("text", ["", "unix:", "192.0.2"])
def test_what_is_no_address_stands_for_itself(text: str) -> None:
    assert unit_or_itself(text) == text
    with pytest.raises(ValueError, match="address"):
        unit(text)
