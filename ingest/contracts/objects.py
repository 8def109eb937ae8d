"""ASGI: shared objects that an application keeps. Names of properties are texts as clients send them; values are bytes
that mean nothing to the application: AMF0, in which those of AMF3 stand behind the marker 11."""

from typing import Literal, TypedDict

ObjectAccess = Literal["none", "temporary", "persistent"]
"""Which shared objects a connection may use: `persistent` ones besides temporary ones."""


class ObjectLoad(TypedDict):
    """A client begins to use a persistent object that nobody uses on this node."""

    type: Literal["rtmp.object.load"]
    request_id: int
    name: str


class ObjectFlush(TypedDict):
    """What has changed since the latest one."""

    type: Literal["rtmp.object.flush"]
    name: str
    version: int
    changes: dict[str, bytes | None]  # None: the property was deleted.


class ObjectLoaded(TypedDict):
    """The answer to `rtmp.object.load`."""

    type: Literal["rtmp.object.loaded"]
    request_id: int
    version: int  # 0 for one that is new.
    data: dict[str, bytes]
    refused: str | None  # Else the code of a status, such as SharedObject.ObjectCreationFailed.
