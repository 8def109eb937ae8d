"""The codes of onStatus and of answers to connect, and their levels (RTMP 1.0, section 7.2.2)."""

from typing import Any, Final, Literal

Level = Literal["status", "warning", "error"]

CALL_FAILED: Final = "NetConnection.Call.Failed"
CONNECT_SUCCESS: Final = "NetConnection.Connect.Success"
CONNECT_REJECTED: Final = "NetConnection.Connect.Rejected"
RECONNECT_REQUEST: Final = "NetConnection.Connect.ReconnectRequest"
"""Of Enhanced RTMP v2, with a `tcUrl` if it leads elsewhere."""
CONNECT_INVALID_APP: Final = "NetConnection.Connect.InvalidApp"
STREAM_FAILED: Final = "NetStream.Failed"
PUBLISH_START: Final = "NetStream.Publish.Start"
PUBLISH_BAD_NAME: Final = "NetStream.Publish.BadName"
PUBLISH_DENIED: Final = "NetStream.Publish.Denied"
PUBLISH_FAILED: Final = "NetStream.Publish.Failed"
UNPUBLISH_SUCCESS: Final = "NetStream.Unpublish.Success"
PLAY_RESET: Final = "NetStream.Play.Reset"
PLAY_START: Final = "NetStream.Play.Start"
PLAY_STOP: Final = "NetStream.Play.Stop"
PLAY_FAILED: Final = "NetStream.Play.Failed"
PLAY_FILE_STRUCTURE_INVALID: Final = "NetStream.Play.FileStructureInvalid"
PLAY_COMPLETE: Final = "NetStream.Play.Complete"
PLAY_SWITCH: Final = "NetStream.Play.Switch"
PLAY_TRANSITION: Final = "NetStream.Play.Transition"
PLAY_TRANSITION_COMPLETE: Final = "NetStream.Play.TransitionComplete"
TRANSITION_SUCCESS: Final = "NetStream.Transition.Success"
"""Flash Media Server's `reason` within Play.Transition."""
PLAY_INSUFFICIENT_BW: Final = "NetStream.Play.InsufficientBW"
PLAY_NO_SUPPORTED_TRACK: Final = "NetStream.Play.NoSupportedTrackFound"
PAUSE_NOTIFY: Final = "NetStream.Pause.Notify"
UNPAUSE_NOTIFY: Final = "NetStream.Unpause.Notify"
SEEK_NOTIFY: Final = "NetStream.Seek.Notify"
SEEK_FAILED: Final = "NetStream.Seek.Failed"
SEEK_INVALID_TIME: Final = "NetStream.Seek.InvalidTime"
INVALID_ARG: Final = "NetStream.InvalidArg"
PLAY_STREAM_NOT_FOUND: Final = "NetStream.Play.StreamNotFound"
PLAY_PUBLISH_NOTIFY: Final = "NetStream.Play.PublishNotify"
PLAY_UNPUBLISH_NOTIFY: Final = "NetStream.Play.UnpublishNotify"

LEVELS: Final[dict[str, Level]] = {
    "NetConnection.Call.BadVersion": "error",
    CALL_FAILED: "error",
    "NetConnection.Call.Prohibited": "error",
    "NetConnection.Connect.AppShutdown": "error",
    "NetConnection.Connect.Closed": "status",
    "NetConnection.Connect.Failed": "error",
    "NetConnection.Connect.IdleTimeOut": "status",
    CONNECT_INVALID_APP: "error",
    "NetConnection.Connect.NetworkChange": "status",
    RECONNECT_REQUEST: "status",
    CONNECT_REJECTED: "error",
    CONNECT_SUCCESS: "status",
    "NetConnection.Proxy.NotResponding": "error",
    "NetStream.Buffer.Empty": "status",
    "NetStream.Buffer.Flush": "status",
    "NetStream.Buffer.Full": "status",
    "NetStream.Clear.Failed": "error",
    "NetStream.Clear.Success": "status",
    "NetStream.Connect.Closed": "status",
    "NetStream.Connect.Failed": "error",
    "NetStream.Connect.Rejected": "error",
    "NetStream.Connect.Success": "status",
    "NetStream.Data.Start": "status",
    STREAM_FAILED: "error",
    INVALID_ARG: "error",
    "NetStream.MulticastStream.Reset": "status",
    PAUSE_NOTIFY: "status",
    PLAY_COMPLETE: "status",
    PLAY_FAILED: "error",
    PLAY_FILE_STRUCTURE_INVALID: "error",
    PLAY_INSUFFICIENT_BW: "warning",
    PLAY_NO_SUPPORTED_TRACK: "error",
    PLAY_PUBLISH_NOTIFY: "status",
    PLAY_RESET: "status",
    PLAY_START: "status",
    PLAY_STOP: "status",
    PLAY_STREAM_NOT_FOUND: "error",
    PLAY_SWITCH: "status",
    PLAY_TRANSITION: "status",
    PLAY_TRANSITION_COMPLETE: "status",
    PLAY_UNPUBLISH_NOTIFY: "status",
    PUBLISH_BAD_NAME: "error",
    PUBLISH_DENIED: "error",
    PUBLISH_FAILED: "error",
    "NetStream.Publish.Idle": "status",
    "NetStream.Publish.Rejected": "error",
    PUBLISH_START: "status",
    "NetStream.Record.AlreadyExists": "status",
    "NetStream.Record.DiskQuotaExceeded": "error",
    "NetStream.Record.Failed": "error",
    "NetStream.Record.NoAccess": "error",
    "NetStream.Record.Start": "status",
    "NetStream.Record.Stop": "status",
    "NetStream.Seek.Complete": "status",
    SEEK_FAILED: "error",
    SEEK_INVALID_TIME: "error",
    SEEK_NOTIFY: "status",
    "NetStream.SeekStart.Notify": "status",
    "NetStream.Step.Notify": "status",
    "NetStream.Transition.Forced": "status",
    TRANSITION_SUCCESS: "status",
    UNPAUSE_NOTIFY: "status",
    UNPUBLISH_SUCCESS: "status",
    "NetStream.Video.DimensionChange": "status",
    "SharedObject.BadPersistence": "error",
    "SharedObject.Flush.Failed": "error",
    "SharedObject.Flush.Success": "status",
    "SharedObject.NoReadAccess": "error",
    "SharedObject.NoWriteAccess": "error",
    "SharedObject.ObjectCreationFailed": "error",
    "SharedObject.UriMismatch": "error",
}


def level_of(code: str) -> Level:
    """The level that goes with a code; "status" for codes of an application's own."""
    return LEVELS.get(code, "status")


def info_object(level: str, code: str, description: str) -> dict[str, Any]:
    """What onStatus and the answers to calls and connect tell (section 7.2.2)."""
    return {"level": level, "code": code, "description": description}
