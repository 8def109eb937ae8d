"""Whose address a request has, and what counts as one where something is limited for each: guesses, attempts,
connections.

And which addresses are the internet's: what somebody enters as a URL leads there alone, unless that is allowed.
"""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NETWORK_BITS = 64
"""Of an IPv6 address: one customer has so large a network, and could take a new address of it each time."""


@lru_cache(4096)
def unit(address: str) -> str:
    """What is counted and banned for an address: itself, or an IPv6 address's network. Raises ValueError."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, NETWORK_BITS), strict=False))


def unit_or_itself(address: str) -> str:
    """As `unit`; what is no internet address, such as "" for a peer that was gone at once, stands for itself."""
    try:
        return unit(address)
    except ValueError:
        return address


def client_of(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """Who asks. `forwarded`: the values of each X-Forwarded-For, in their order; `proxies`: whose word counts.

    Each proxy adds its own peer at the end, so it is the last address that is no proxy's. What comes before that may
    be anything. Where there is none, or a proxy's word is no address, it is the peer.
    """
    if not is_in(peer, proxies):
        return peer
    for entry in reversed(",".join(forwarded).split(",")):
        found = _plain(entry.strip())
        if not found:
            return peer
        if not is_in(found, proxies):
            return found
    return peer


def is_in(address: str, networks: Sequence[Network]) -> bool:
    """Also for what is no address: in none."""
    plain = _plain(address) if networks else ""
    return bool(plain) and any(ipaddress.ip_address(plain) in network for network in networks)


def _plain(address: str) -> str:
    """In its usual form, an IPv4 address as such; "" for what is none."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    return str(getattr(found, "ipv4_mapped", None) or found)


NAT64 = ipaddress.ip_network("64:ff9b::/96")
GIVEN_OUT = ipaddress.ip_network("2000::/3")
"""All of IPv6 that has been given to networks of the internet."""
SPECIAL = (ipaddress.ip_network("192.0.0.0/24"), ipaddress.ip_network("192.88.99.0/24"))
"""Of IPv4, besides what the standard library knows: for protocols, and 6to4's former relays."""


def is_public(text: str) -> bool:
    """Whether the IP address is one of the internet's: not this machine's, not a private network's, no group's."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        return address in GIVEN_OUT and address.is_global
    return address.is_global and not address.is_multicast and not any(address in network for network in SPECIAL)


def is_private(url: str) -> bool:
    """Whether the URL's host is written as an address that is not public, or as this machine's name."""
    host = urlsplit(url).hostname or ""
    try:
        return not is_public(host)
    except ValueError:  # A name: it is looked up when something is sent.
        return host == "localhost" or host.endswith(".localhost")
