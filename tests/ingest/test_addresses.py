"""What counts as one address, and whose it is."""

from ipaddress import ip_network

import pytest

from ingest.addresses import client_of, unit, unit_or_itself

PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8::/48")]


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


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["192.0.2.7, 10.0.0.2"], "192.0.2.7"),
        ("10.0.0.1", ["198.51.100.9, 192.0.2.7,10.0.0.2"], "192.0.2.7"),
        ("10.0.0.1", ["192.0.2.7", "198.51.100.9"], "198.51.100.9"),
        ("2001:db8::5", ["2001:DB8:1::7"], "2001:db8:1::7"),
        ("::ffff:10.0.0.1", ["::ffff:192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["rubbish, 192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["192.0.2.7, rubbish"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7,"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7:4711"], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("192.0.2.7", ["198.51.100.9"], "192.0.2.7"),
        ("", ["198.51.100.9"], ""),
    ],
)
def test_whose_a_request_is(peer: str, forwarded: list[str], client: str) -> None:
    assert client_of(peer, forwarded, PROXIES) == client
    assert client_of(peer, forwarded, []) == peer
