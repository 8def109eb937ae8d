"""What counts as one address where something is limited for each: guesses, attempts, connections."""

import ipaddress
from functools import lru_cache

NETWORK_BITS = 64
"""Of an IPv6 address: one customer has so large a network, and could take a new address of it each time."""


@lru_cache(4096)
def unit(address: str) -> str:
    """What is counted and banned for an address: itself, or an IPv6 address's network. Raises ValueError."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, NETWORK_BITS), strict=False))


def unit_or_itself(address: str) -> str:
    """As `unit`; what is no internet address, such as "" for a peer that was gone at once, stands for itself."""
    try:
        return unit(address)
    except ValueError:
        return address
