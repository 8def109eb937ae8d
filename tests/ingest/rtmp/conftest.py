"""A client and a server that have got so far as a test begins with."""

import pytest

from tests.ingest.rtmp.pair import ConnectionPair


@pytest.fixture
def unconnected() -> ConnectionPair:
    """With their handshake behind them."""
    pair = ConnectionPair()
    pair.run()
    return pair


@pytest.fixture
def pair() -> ConnectionPair:
    """Connected."""
    return ConnectionPair().connected()


@pytest.fixture
def idle(pair: ConnectionPair) -> ConnectionPair:
    """Connected, with message stream 1."""
    pair.create_stream()
    return pair


@pytest.fixture
def publisher() -> ConnectionPair:
    """The client publishes on message stream 1."""
    pair = ConnectionPair()
    pair.publishing()
    return pair
