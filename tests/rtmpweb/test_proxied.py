"""Pages behind a proxy: the client's address is what the log-in's limit and the access log go by."""

from ipaddress import ip_network
from typing import Any

import pytest

from rtmpweb.middleware import ProxiedClient

HEADERS = [(b"host", b"localhost"), (b"x-forwarded-for", b"198.51.100.9"), (b"x-forwarded-for", b"192.0.2.7")]


@pytest.mark.parametrize(
    ("peer", "network", "client"),
    [
        (["127.0.0.1", 4711], "127.0.0.1", ["192.0.2.7", 0]),
        (["127.0.0.1", 4711], "10.0.0.0/8", ["127.0.0.1", 4711]),
        (None, "127.0.0.1", None),
    ],
)
async def test_who_asks(peer: list[Any] | None, network: str, client: list[Any] | None) -> None:
    found = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        found.append(scope["client"])

    scope = {"type": "http", "client": peer, "headers": HEADERS}
    await ProxiedClient(application, [ip_network(network)])(scope, None, None)
    assert found == [client]
    assert scope["client"] == peer
