"""The codes of onStatus and of answers to connect, and their levels (RTMP 1.0, section 7.2.2)."""

from typing import Final, Literal

Level = Literal["status", "warning", "error"]

CALL_FAILED: Final = "NetConnection.Call.Failed"
CONNECT_SUCCESS: Final = "NetConnection.Connect.Success"
CONNECT_REJECTED: Final = "NetConnection.Connect.Rejected"
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
    "NetConnection.Connect.ReconnectRequest": "status",
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
    "NetStream.InvalidArg": "error",
    "NetStream.MulticastStream.Reset": "status",
    "NetStream.Pause.Notify": "status",
    "NetStream.Play.Complete": "status",
    PLAY_FAILED: "error",
    "NetStream.Play.FileStructureInvalid": "error",
    "NetStream.Play.InsufficientBW": "warning",
    "NetStream.Play.NoSupportedTrackFound": "error",
    PLAY_PUBLISH_NOTIFY: "status",
    PLAY_RESET: "status",
    PLAY_START: "status",
    PLAY_STOP: "status",
    PLAY_STREAM_NOT_FOUND: "error",
    "NetStream.Play.Switch": "status",
    "NetStream.Play.Transition": "status",
    "NetStream.Play.TransitionComplete": "status",
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
    "NetStream.Seek.Failed": "error",
    "NetStream.Seek.InvalidTime": "error",
    "NetStream.Seek.Notify": "status",
    "NetStream.SeekStart.Notify": "status",
    "NetStream.Step.Notify": "status",
    "NetStream.Transition.Forced": "status",
    "NetStream.Transition.Success": "status",
    "NetStream.Unpause.Notify": "status",
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
