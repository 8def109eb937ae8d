"""The codes of onStatus and of answers to connect, and their levels (RTMP 1.0, section 7.2.2)."""

from typing import Any, Final, Literal

Level = Literal["status", "warning", "error"]

CALL_FAILED: Final = "NetConnection.Call.Failed"
CONNECT_SUCCESS: Final = "NetConnection.Connect.Success"
CONNECT_REJECTED: Final = "NetConnection.Connect.Rejected"
RECONNECT_REQUEST: Final = "NetConnection.Connect.ReconnectRequest"
"""Of Enhanced RTMP v2, with a `tcUrl` if it leads elsewhere."""
PUBLISH_START: Final = "NetStream.Publish.Start"
PUBLISH_BAD_NAME: Final = "NetStream.Publish.BadName"
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

ERRORS: Final = frozenset(
    {
        "NetConnection.Call.BadVersion",
        CALL_FAILED,
        "NetConnection.Call.Prohibited",
        "NetConnection.Connect.AppShutdown",
        "NetConnection.Connect.Failed",
        "NetConnection.Connect.InvalidApp",
        CONNECT_REJECTED,
        "NetConnection.Proxy.NotResponding",
        "NetStream.Clear.Failed",
        "NetStream.Connect.Failed",
        "NetStream.Connect.Rejected",
        "NetStream.Failed",
        INVALID_ARG,
        PLAY_FAILED,
        PLAY_FILE_STRUCTURE_INVALID,
        PLAY_NO_SUPPORTED_TRACK,
        PLAY_STREAM_NOT_FOUND,
        PUBLISH_BAD_NAME,
        "NetStream.Publish.Denied",
        PUBLISH_FAILED,
        "NetStream.Publish.Rejected",
        "NetStream.Record.DiskQuotaExceeded",
        "NetStream.Record.Failed",
        "NetStream.Record.NoAccess",
        SEEK_FAILED,
        SEEK_INVALID_TIME,
        "SharedObject.BadPersistence",
        "SharedObject.Flush.Failed",
        "SharedObject.NoReadAccess",
        "SharedObject.NoWriteAccess",
        "SharedObject.ObjectCreationFailed",
        "SharedObject.UriMismatch",
    }
)
WARNINGS: Final = frozenset({PLAY_INSUFFICIENT_BW})


def level_of(code: str) -> Level:
    """The level that goes with a code; "status" for all others, such as an application's own."""
    return "error" if code in ERRORS else "warning" if code in WARNINGS else "status"


def info_object(level: str, code: str, description: str) -> dict[str, Any]:
    """What onStatus and the answers to calls and connect tell (section 7.2.2)."""
    return {"level": level, "code": code, "description": description}
