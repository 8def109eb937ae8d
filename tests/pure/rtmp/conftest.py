"""A client and a server in the states in which tests begin."""

import pytest

from ingest.rtmp import ServerConnection, events
from tests.pure.rtmp.pair import ConnectionPair, Sink, deciding


@pytest.fixture
def unconnected() -> ConnectionPair:
    """The handshake is complete."""
    pair = ConnectionPair()
    pair.run()
    return pair


@pytest.fixture
def pair() -> ConnectionPair:
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


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def fed(sink: Sink) -> ConnectionPair:
    """The client publishes on message stream 1, and the sink takes its audio and video."""

    def publish(server: ServerConnection, event: events.PublishRequested) -> None:
        server.accept_publish(event.request_id, "Publishing.", public_name="cam", sink=sink)

    pair = ConnectionPair(decide=deciding(events.PublishRequested, publish))
    pair.publishing()
    return pair
