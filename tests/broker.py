"""What waits in a queue of Celery's, whichever broker the suite's form has."""

from typing import Any

from rtmpweb.celery import app


def waiting(queue: str) -> int:
    """How many tasks no worker has taken yet."""
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        return int(channel.queue_declare(queue).message_count)
