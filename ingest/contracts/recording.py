"""Recording: what the application orders with `rtmp.publish.accept`, and what it is told of each file."""

from typing import Literal, TypedDict


class RecordOrder(TypedDict):
    """`record` begins a new recording under the stream's name, `append` continues `file`, `all` makes recordings under
    names of their own, one after the other.
    """

    mode: Literal["record", "append", "all"]
    file: str  # To be continued: its path in the folder of recordings. "", or not there: a new one is begun.


class RecordEvent(TypedDict):
    """A file holds media now, or is closed; or recording failed, and is tried again; or the recording is over.

    It goes to the publisher's application and, when that has had its last event, as `node.record` to the node's.
    """

    type: Literal["rtmp.record", "node.record"]
    session_id: str
    stream_id: int
    state: Literal["started", "closed", "failed", "over"]
    mode: Literal["record", "append", "all"]
    name: str  # Under which players ask for it.
    file: str  # Its path in the folder of recordings; "": it failed without one, or one that goes on.
    began: float  # When the file was begun, seconds since the epoch; 0 for one that was there before.
    is_continued: bool
    duration_ms: int  # Of the whole file.
    size_bytes: int
    dropped_frames: int  # Of the session so far, since the disk was behind.
    code: str  # NetStream.Record.*, of a failure.
    description: str
