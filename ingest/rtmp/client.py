"""The client's end of a connection: publishes and plays. What this server fetches from others, or sends to them, goes
through it.

Each call queues one command and gives its transaction id; `ResultReceived` and `StatusReceived` tell what came of it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ingest.rtmp.calls import ANSWERS
from ingest.rtmp.connection import COMMON_HANDLERS, Connection
from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.events import AudioReceived, StatusReceived, VideoReceived
from ingest.rtmp.handlers import COMPOUND_HANDLERS, CONTROL_HANDLERS, PING_HANDLERS, RESULT_HANDLERS, on_reported
from ingest.rtmp.handshake import ClientHandshake
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.rtmp.messages import MessageType
from ingest.rtmp.messages.commands import Command, text
from ingest.rtmp.messages.control import UserControl
from ingest.rtmp.run_reader import MediaSink
from ingest.rtmp.states import Phase, Step

FLASH_VERSION: Final = "FMLE/3.0 (compatible; rtmpweb)"
"""Servers tell encoders from players by the beginning."""

ANY_START: Final = -2.0
"""Of `play`: what is live, else the recording."""
WHOLE: Final = -1.0
"""Its duration: until it ends."""


@dataclass(slots=True)
class PlayedStream:
    """A message stream that plays, whose audio and video go to its sink."""

    stream_id: int
    sink: MediaSink | None = None


class ClientConnection(Connection):
    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        *,
        nonce: bytes,
        epoch_ms: int = 0,
        window_bytes: int = 2_500_000,
        answers_calls: bool = False,
    ) -> None:
        """`nonce`: 1528 random bytes for C1. C0 and C1 are queued at once. `answers_calls`: see the attribute."""
        handshake = ClientHandshake(nonce, epoch_ms)
        super().__init__(limits, handshake, window_bytes=window_bytes, compress=True)
        self._output.append(handshake.begin())
        self.answers_calls = answers_calls
        self._requested_amf3 = False
        self._played = PlayedStream(0)

    # --- NetConnection (section 7.2.1) ---

    def connect(self, app: str, tc_url: str, *arguments: Any, **properties: Any) -> float:
        """After HandshakeCompleted. `properties` are added to the command object, `arguments` follow it.

        With `objectEncoding=3` commands and data go out as types 17 and 15 if the server answers that it knows them.
        """
        self.move(Step.ASK)
        command_object = {"app": app, "type": "nonprivate", "flashVer": FLASH_VERSION, "tcUrl": tc_url, **properties}
        self._requested_amf3 = command_object.get("objectEncoding") == 3
        return self._call(0, "connect", command_object, *arguments)

    def create_stream(self) -> float:
        """The last of the result's values is the message stream's id."""
        return self.call("createStream")

    def delete_stream(self, stream_id: int) -> float:
        return self.call("deleteStream", float(stream_id))

    # --- NetStream (section 7.2.2) ---

    def publish(self, stream_id: int, name: str, publish_type: str = "live") -> float:
        return self.call("publish", name, publish_type, stream_id=stream_id)

    def play(
        self,
        stream_id: int,
        name: str,
        start: float = ANY_START,
        duration: float = WHOLE,
        reset: bool | None = None,
        *,
        sink: MediaSink | None = None,
    ) -> float:
        """`sink` is given the audio and video, unless an event that came before them still waits to be taken: then they
        are events too, so that nothing overtakes. One message stream of a connection may have one."""
        if sink is not None:
            self._played = PlayedStream(stream_id, sink)
        arguments = [name, start, duration] if reset is None else [name, start, duration, reset]
        return self.call("play", *arguments, stream_id=stream_id)

    def send_to(self, sink: MediaSink | None) -> None:
        """What plays goes there from now on; None: it comes as events. Not to be called by its former sink."""
        self._played.sink = sink

    # --- What the server sends ---

    def on_connected(self, succeeded: bool, command: Command) -> None:
        self.move(Step.ACCEPT if succeeded else Step.REJECT)
        info = command.argument(0)
        self.amf3 = self._requested_amf3 and isinstance(info, dict) and info.get("objectEncoding") == 3

    def _on_status(self, stream_id: int, command: Command) -> None:
        info = command.argument(0)
        if not isinstance(info, dict):
            raise RemoteProtocolError("an onStatus without its object")
        level, code, description = (text(info.get(name)) for name in ("level", "code", "description"))
        self._events.append(StatusReceived(stream_id, level, code, description, info))

    def _one_media_stream(self) -> PlayedStream | None:
        if self._played.sink is None or self._events or self.phase is not Phase.CONNECTED:
            return None
        return self._played

    def _on_audio(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        self.require_connected()
        played = self._played
        if played.sink is None or played.stream_id != stream_id or self._events:
            self._events.append(AudioReceived(stream_id, timestamp, payload))
        else:
            played.sink.audio(timestamp, payload)

    def _on_video(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        self.require_connected()
        played = self._played
        if played.sink is None or played.stream_id != stream_id or self._events:
            self._events.append(VideoReceived(stream_id, timestamp, payload))
        else:
            played.sink.video(timestamp, payload)

    def _on_data(self, timestamp: int, stream_id: int, payload: bytes, *, type_id: int = MessageType.DATA_AMF0) -> None:
        self.require_connected()
        self._report_data(type_id, timestamp, stream_id, payload)

    handlers = {
        **COMMON_HANDLERS,
        **CONTROL_HANDLERS,
        **COMPOUND_HANDLERS,
        MessageType.AUDIO: _on_audio,
        MessageType.VIDEO: _on_video,
        MessageType.DATA_AMF0: _on_data,
        MessageType.DATA_AMF3: partial(_on_data, type_id=MessageType.DATA_AMF3),
    }
    user_control_handlers = {**dict.fromkeys(UserControl, on_reported), **PING_HANDLERS}
    opening_commands = ANSWERS
    commands = {**RESULT_HANDLERS, "onStatus": _on_status}
