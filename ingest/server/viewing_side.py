"""The side to the application of who plays one stream and has no RTMP: a viewer by FLV, MP4 or HLS."""

from collections.abc import Mapping
from typing import ClassVar

from ingest.server.asgi import Kind, Message, Request
from ingest.server.connection_base import Answer, ApplicationSide, Handler


class ViewingSide(ApplicationSide):
    """Asks `connect`, then `play`. What it is to be let in, and how it is refused, is for who inherits this."""

    __slots__ = ()

    def refuse(self, request: Request, code: str, description: str, *, passes: bool = False) -> None:
        """`passes`: it may be tried again in a moment."""
        raise NotImplementedError

    def _play_reject(self, request: Request, message: Message) -> None:
        self.refuse(request, message["code"], message["description"], passes=message.get("passes", False))

    def _stream_stop(self, message: Message) -> None:
        if message["stream_id"] in self.connection.sessions:
            self.close(message)

    def _ignore(self, message: Message) -> None:
        """Neither FLV nor HLS has a place for it."""

    answers: ClassVar[Mapping[str, tuple[Kind, Answer]]] = {
        "rtmp.reject": ("connect", ApplicationSide.reject),
        "rtmp.play.reject": ("play", _play_reject),
    }
    handlers: ClassVar[Mapping[str, Handler]] = {
        "rtmp.close": ApplicationSide.close,
        "rtmp.stream.stop": _stream_stop,
        "rtmp.status.send": _ignore,
    }
