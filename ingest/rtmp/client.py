"""The client's end of a connection: publishes and plays. Tests, the relay and the benchmarks use it.

Each call queues one command and gives its transaction id; `ResultReceived` and `StatusReceived` tell what came of it.
"""

from typing import Any, Final

from ingest.rtmp.connection import ANSWERS, COMMON_HANDLERS, COMMON_USER_CONTROL, Connection
from ingest.rtmp.errors import LocalProtocolError, RemoteProtocolError
from ingest.rtmp.events import (
    AudioReceived,
    ResultReceived,
    StatusReceived,
    UserControlReceived,
    VideoReceived,
)
from ingest.rtmp.handshake import ClientHandshake
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.rtmp.messages import media, user_control
from ingest.rtmp.messages.commands import Command
from ingest.rtmp.messages.data import SET_DATA_FRAME, encode_data
from ingest.rtmp.messages.message import MessageType
from ingest.rtmp.messages.user_control import UserControl
from ingest.rtmp.states import Phase, Step

FLASH_VERSION: Final = "FMLE/3.0 (compatible; rtmpweb)"
"""Servers tell encoders from players by the beginning."""


class ClientConnection(Connection):
    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, *, nonce: bytes, epoch_ms: int = 0, window: int = 2_500_000
    ) -> None:
        """`nonce`: 1528 random bytes for C1. C0 and C1 are queued at once."""
        handshake = ClientHandshake(nonce, epoch_ms)
        super().__init__(limits, handshake, window=window, compress=True)
        self._out.append(handshake.begin())
        self._calls: dict[float, str] = {}
        """Procedures by the transaction ids of what was called and isn't answered."""
        self._last_transaction = 0

    # --- NetConnection (section 7.2.1) ---

    def connect(self, app: str, tc_url: str, **properties: Any) -> float:
        """After HandshakeCompleted. `properties` are added to the command object (`objectEncoding=0`, ...)."""
        self._move(Step.ASK)
        command_object = {"app": app, "type": "nonprivate", "flashVer": FLASH_VERSION, "tcUrl": tc_url, **properties}
        return self._call(0, "connect", command_object)

    def call(self, procedure: str, *arguments: Any, stream_id: int = 0, command_object: Any = None) -> float:
        """Any procedure of the server's."""
        self._require_open()
        return self._call(stream_id, procedure, command_object, *arguments)

    def notify(self, procedure: str, *arguments: Any, stream_id: int = 0) -> None:
        """A call with transaction id 0, which wants no answer."""
        self._require_open()
        self._send_command(stream_id, procedure, 0, None, *arguments)

    def release_stream(self, name: str) -> float:
        return self.call("releaseStream", name)

    def fc_publish(self, name: str) -> float:
        return self.call("FCPublish", name)

    def fc_unpublish(self, name: str) -> float:
        return self.call("FCUnpublish", name)

    def create_stream(self) -> float:
        """The last of the result's values is the message stream's id."""
        return self.call("createStream")

    def delete_stream(self, stream_id: int) -> float:
        return self.call("deleteStream", float(stream_id))

    # --- NetStream (section 7.2.2) ---

    def publish(self, stream_id: int, name: str, publish_type: str = "live") -> float:
        return self.call("publish", name, publish_type, stream_id=stream_id)

    def play(
        self, stream_id: int, name: str, start: float = -2, duration: float = -1, reset: bool | None = None
    ) -> float:
        """`start` and `duration` in the server's unit, which the specification says is seconds."""
        arguments: list[Any] = [name, start, duration]
        if reset is not None:
            arguments.append(reset)
        return self.call("play", *arguments, stream_id=stream_id)

    def close_stream(self, stream_id: int) -> float:
        return self.call("closeStream", stream_id=stream_id)

    def set_buffer_length(self, stream_id: int, length_ms: int) -> None:
        self.send_user_control(UserControl.SET_BUFFER_LENGTH, stream_id, length_ms)

    # --- Media ---

    def send_audio(self, stream_id: int, timestamp: int, payload: bytes) -> None:
        self.send_message(media.audio(stream_id, timestamp, payload))

    def send_video(self, stream_id: int, timestamp: int, payload: bytes) -> None:
        self.send_message(media.video(stream_id, timestamp, payload))

    def send_data(self, stream_id: int, timestamp: int, name: str, *values: Any) -> None:
        self.send_message(encode_data(stream_id, timestamp, name, *values))

    def send_metadata(self, stream_id: int, timestamp: int, metadata: dict[str, Any]) -> None:
        """onMetaData, which the server keeps for later players."""
        self.send_data(stream_id, timestamp, SET_DATA_FRAME, "onMetaData", metadata)

    # --- What the server sends ---

    def _on_result(self, stream_id: int, command: Command) -> None:
        procedure = self._calls.pop(command.transaction, None)
        if procedure is None:
            # Some servers answer calls that wanted no answer.
            return
        succeeded = command.name == "_result"
        if procedure == "connect":
            self._move(Step.ACCEPT if succeeded else Step.REJECT)
        values = [command.command_object, *command.arguments]
        self._events.append(ResultReceived(procedure, command.transaction, succeeded, values))

    def _on_status(self, stream_id: int, command: Command) -> None:
        info = command.argument(0)
        if not isinstance(info, dict):
            raise RemoteProtocolError("an onStatus without its object")
        level, code, description = (
            text if isinstance(text := info.get(name), str) else "" for name in ("level", "code", "description")
        )
        self._events.append(StatusReceived(stream_id, level, code, description, info))

    def _on_audio(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        self._require_connected()
        self._events.append(AudioReceived(stream_id, timestamp, payload))

    def _on_video(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        self._require_connected()
        self._events.append(VideoReceived(stream_id, timestamp, payload))

    def _on_data(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        self._require_connected()
        self._report_data(timestamp, stream_id, payload)

    def _on_stream_event(self, payload: bytes) -> None:
        event = UserControlReceived(user_control.read_event(payload), user_control.read_number(payload))
        self._events.append(event)

    def _require_open(self) -> None:
        if self.phase is not Phase.CONNECTED:
            raise LocalProtocolError("the connection is not accepted yet")

    def _call(self, stream_id: int, procedure: str, command_object: Any, *arguments: Any) -> float:
        self._last_transaction += 1
        self._calls[self._last_transaction] = procedure
        self._send_command(stream_id, procedure, self._last_transaction, command_object, *arguments)
        return self._last_transaction

    handlers = {
        **COMMON_HANDLERS,
        MessageType.AUDIO: _on_audio,
        MessageType.VIDEO: _on_video,
        MessageType.DATA_AMF0: _on_data,
        MessageType.DATA_AMF3: _on_data,
    }
    user_control_handlers = {
        **COMMON_USER_CONTROL,
        UserControl.STREAM_BEGIN: _on_stream_event,
        UserControl.STREAM_EOF: _on_stream_event,
        UserControl.STREAM_DRY: _on_stream_event,
        UserControl.STREAM_IS_RECORDED: _on_stream_event,
        UserControl.BUFFER_EMPTY: _on_stream_event,
        UserControl.BUFFER_READY: _on_stream_event,
    }
    opening_commands = ANSWERS
    commands = {"_result": _on_result, "_error": _on_result, "onStatus": _on_status}
