"""The embedded server's broker: messages arrive whole, and a bad one stops nobody."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from rtmpweb import broker
from tests.redis_server import RedisServer

COUNT = 300
BODY = "x" * 20_000
SENDERS = 4


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    broker.register_transports()
    queue = tmp_path / "queue"
    queue.mkdir()
    options = {
        "data_folder_in": str(queue),
        "data_folder_out": str(queue),
        "control_folder": str(tmp_path / "control"),
    }
    with Connection("filesystem://localhost", transport_options=options) as made:
        assert isinstance(made.transport, broker.Transport)
        yield made


def test_a_message_is_found_whole_while_others_are_being_written(connection: Connection) -> None:
    def send() -> None:
        with connection.clone() as own:
            queue = own.SimpleQueue("default")
            for number in range(COUNT):
                queue.put({"number": number, "body": BODY})
            queue.close()

    sender = threading.Thread(target=send)
    sender.start()
    queue = connection.SimpleQueue("default")
    got = []
    for _ in range(COUNT):
        message = queue.get(timeout=20)
        got.append(message.payload["number"])
        message.ack()
    sender.join()
    queue.close()
    assert sorted(got) == list(range(COUNT))


def test_one_that_cannot_be_read_is_left_out(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "queue" / "0_first.other.msg").write_bytes(b"")
    queue = connection.SimpleQueue("other")
    queue.put({"number": 1})
    message = queue.get(timeout=20)
    assert message.payload == {"number": 1}
    message.ack()
    queue.close()
    assert list((tmp_path / "queue").iterdir()) == []


def test_many_may_begin_at_once(connection: Connection) -> None:
    """Each of the server's processes declares the queues when it starts."""

    def send(name: str) -> None:
        together.wait()
        with connection.clone() as own:
            queue = own.SimpleQueue(name)
            queue.put({})
            queue.close()

    for number in range(50):
        together = threading.Barrier(SENDERS)
        name = f"queue{number}"
        senders = [threading.Thread(target=send, args=(name,)) for _ in range(SENDERS)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        queue = connection.SimpleQueue(name)
        assert queue.qsize() == SENDERS
        queue.close()


def test_a_lost_connection_with_a_task_that_is_not_done_yet_is_closed(tmp_path: Path) -> None:
    """As it is when Celery closes it: its transport has let go of it, and knows no address any more."""
    broker.register_transports()
    server = RedisServer(tmp_path)
    server.start()
    try:
        lost = Connection(server.url)
        with lost.SimpleQueue("tasks") as queue:
            queue.put({"task": 1})
        channel: Any = lost.default_channel
        assert channel.basic_get("tasks")
        lost.transport.client = None
        channel.close()
        assert channel.closed
    finally:
        server.kill()
