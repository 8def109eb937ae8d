"""What an end says in `connect` of what it can do: RTMP 1.0, section 7.2.1.1, and Enhanced RTMP v2, "Enhancing
NetConnection connect Command". A client says it in the command object, a server in the first object of its answer.

Nothing that a peer says here is an error: what is no value of its table counts as not said.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntFlag
from itertools import islice
from typing import Any, Final, Literal

from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.rtmp.media_tags import AUDIO_FOURCC, VIDEO_FOURCC
from ingest.rtmp.messages.commands import number, text

MAX_FLAGS: Final = 0xFFFFFFFF
"""Flags that a peer may set: those of no table are kept, as later versions may name them."""

ANY: Final = "*"
"""In place of a FourCC: every codec."""


class FourCcInfo(IntFlag):
    """Values of `videoFourCcInfoMap` and `audioFourCcInfoMap` (FourCcInfoMask)."""

    CAN_DECODE = 0x01
    CAN_ENCODE = 0x02
    CAN_FORWARD = 0x04


class CapsEx(IntFlag):
    """`capsEx` (CapsExMask)."""

    RECONNECT = 0x01
    MULTITRACK = 0x02
    MOD_EX = 0x04
    TIMESTAMP_NANO_OFFSET = 0x08


@dataclass(frozen=True, slots=True)
class Capabilities:
    """None stands for what was not said.

    Flags are plain numbers, of which the classes above name the bits: a class of flags keeps each number that it was
    made of, for as long as the process lives.
    """

    swf_url: str = field(default="", repr=False)
    page_url: str = field(default="", repr=False)
    fpad: bool = False
    """Connected by a proxy."""
    object_encoding: int = 0
    """0 for AMF0, or 3 for AMF3."""
    audio_codecs: int | None = None
    """Bits by the number of a sound format (1 << 10: AAC)."""
    video_codecs: int | None = None
    """Bits by the number of a codec id (1 << 7: H.264)."""
    video_function: int | None = None
    """1: seeks to any frame."""
    fourcc_list: tuple[str, ...] | None = None
    """FourCC codes of audio and video, or `ANY`."""
    video_fourcc_info: Mapping[str, int] | None = None
    """FourCcInfo by FourCC; the flags of `ANY` go for every codec."""
    audio_fourcc_info: Mapping[str, int] | None = None
    caps_ex: int | None = None

    @property
    def enhanced(self) -> bool:
        """Whether it knows Enhanced RTMP: it has sent one of its properties."""
        values = (self.fourcc_list, self.video_fourcc_info, self.audio_fourcc_info, self.caps_ex)
        return any(value is not None for value in values)

    def takes(self, kind: Literal["audio", "video"], fourcc: str) -> bool:
        """Whether it may be sent a codec by its FourCC. What has a codec id in its place is not asked about here.

        Who says nothing of a kind takes all of it. `fourCcList` of Enhanced RTMP v1 names video alone, so that it says
        something of sound only if it names a codec of it.
        """
        info = self.video_fourcc_info if kind == "video" else self.audio_fourcc_info
        if info is not None:
            return bool((info.get(fourcc, 0) | info.get(ANY, 0)) & (FourCcInfo.CAN_DECODE | FourCcInfo.CAN_FORWARD))
        listed = self.fourcc_list
        if listed is None or ANY in listed or fourcc in listed:
            return True
        codecs = VIDEO_FOURCC if kind == "video" else AUDIO_FOURCC
        is_named = any(name.encode() in codecs for name in listed) or (kind == "video" and not listed)
        return not is_named

    def properties(self) -> dict[str, Any]:
        """What was said, as `connect` and its answer send it."""
        found = {}
        for name, (attribute, _) in PROPERTIES.items():
            value = getattr(self, attribute)
            if value != getattr(NO_CAPABILITIES, attribute):
                found[name] = _plain(value)
        return found


NO_CAPABILITIES: Final = Capabilities()

RELAY_CAPABILITIES: Final = Capabilities(
    fourcc_list=(ANY,),
    video_fourcc_info={ANY: FourCcInfo.CAN_FORWARD},
    audio_fourcc_info={ANY: FourCcInfo.CAN_FORWARD},
    caps_ex=CapsEx.RECONNECT | CapsEx.MULTITRACK | CapsEx.MOD_EX | CapsEx.TIMESTAMP_NANO_OFFSET,
)
"""Our server's: it relays every codec, and every extension, as it comes."""

CLIENT_CAPABILITIES: Final = replace(
    RELAY_CAPABILITIES, caps_ex=CapsEx.MULTITRACK | CapsEx.MOD_EX | CapsEx.TIMESTAMP_NANO_OFFSET
)
"""The same where it is the client: it follows no request to connect elsewhere."""


def read_capabilities(properties: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> Capabilities:
    """From the command object of `connect`, or the objects of its answer."""
    fields = {attribute: read(properties.get(name), limits) for name, (attribute, read) in PROPERTIES.items()}
    return Capabilities(**fields)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: int(flags) for name, flags in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, IntFlag) else value


def _flags(value: Any, _limits: Limits) -> int | None:
    found = number(value, -1)
    return int(found) if 0 <= found <= MAX_FLAGS else None


def _is_fourcc(value: Any) -> bool:
    return isinstance(value, str) and (value == ANY or (len(value) == 4 and value.isascii()))


def _fourccs(value: Any, limits: Limits) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(item for item in islice(value, limits.fourccs) if _is_fourcc(item))


def _fourcc_info(value: Any, limits: Limits) -> dict[str, int] | None:
    if not isinstance(value, Mapping):
        return None
    items: Iterable[tuple[Any, Any]] = islice(value.items(), limits.fourccs)
    return {name: flags for name, item in items if _is_fourcc(name) and (flags := _flags(item, limits)) is not None}


PROPERTIES: Final[dict[str, tuple[str, Callable[[Any, Limits], Any]]]] = {
    "swfUrl": ("swf_url", lambda value, _limits: text(value)),
    "pageUrl": ("page_url", lambda value, _limits: text(value)),
    "fpad": ("fpad", lambda value, _limits: value is True),
    "objectEncoding": ("object_encoding", lambda value, _limits: 3 if value == 3 else 0),
    "audioCodecs": ("audio_codecs", _flags),
    "videoCodecs": ("video_codecs", _flags),
    "videoFunction": ("video_function", _flags),
    "fourCcList": ("fourcc_list", _fourccs),
    "videoFourCcInfoMap": ("video_fourcc_info", _fourcc_info),
    "audioFourCcInfoMap": ("audio_fourcc_info", _fourcc_info),
    "capsEx": ("caps_ex", _flags),
}
"""Field and reader by the property's name on the wire."""
