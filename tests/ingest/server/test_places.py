"""How many connections there may be from one address."""

from ingest.server import ServerConfig
from ingest.server.connection_limits import ADDRESSES, ConnectionLimits


def places(most: int) -> ConnectionLimits:
    return ConnectionLimits(ServerConfig(node="node-1", max_connections_per_address=most), lambda: 0.0)


def test_an_ipv6_network_has_the_places_of_one_address() -> None:
    found = places(2)
    assert [found.take(f"2001:db8:1:2::{number}") for number in range(4)] == [True, True, False, False]
    assert found.take("2001:db8:1:3::1")
    assert found.take_refused() == [{"address": "2001:db8:1:2::2", "count": 2}]
    found.free("2001:db8:1:2::1")
    assert found.take("2001:db8:1:2::9")


def test_addresses_of_ipv4_have_places_of_their_own() -> None:
    found = places(1)
    assert [found.take(address) for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1")] == [True, True, False]


def test_a_flood_of_networks_is_told_apart_up_to_a_bound() -> None:
    found = places(0)
    for number in range(2 * ADDRESSES):
        assert not found.take(f"2001:db8:{number:x}::1")
    told = found.take_refused()
    assert [refused["count"] for refused in told] == [1] * ADDRESSES + [ADDRESSES]
    assert told[-1]["address"] == ""
