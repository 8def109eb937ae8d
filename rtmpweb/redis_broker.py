"""The Redis transport, as far as Kombu's own would end a worker."""

from typing import Any

from kombu.transport import redis


class QoS(redis.QoS):
    """Kombu's own gives back what was not acknowledged when a connection is closed, and asks it for its address. Where
    it was lost that is not known any more: a worker that had a task would end.
    """

    def restore_unacked(self, client: Any = None) -> None:
        """A lost connection's messages are given back by their visibility timeout."""
        if self.channel.connection.client is None:
            self._delivered.clear()  # type: ignore[union-attr]  # Kombu's stub leaves it open.
        else:
            super().restore_unacked(client)


class Channel(redis.Channel):
    QoS = QoS


class Transport(redis.Transport):
    Channel = Channel
