"""The metadata frame of a video message, and colorInfo in it (Enhanced RTMP v1 and v2, "Metadata Frame").

The body is a run of names and values in AMF, of which "colorInfo" is the only one defined.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from ingest.rtmp import amf0
from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits

COLOUR: Final = "colorInfo"
MAX_METADATA_BYTES: Final = 16 * 1024
"""A whole colorInfo has under 500."""

Group = TypeVar("Group")


def _number(name: str, least: float, most: float) -> Any:
    """A property by its name on the wire, None unless it is a number between the two."""
    return field(default=None, metadata={"name": name, "least": least, "most": most})


def _whole(name: str, most: int) -> Any:
    return field(default=None, metadata={"name": name, "least": 0, "most": most, "whole": True})


@dataclass(frozen=True, slots=True)
class ColourConfig:
    """colorConfig. All but the depth are indices into the tables of ITU-T H.273."""

    bit_depth: int | None = _whole("bitDepth", 16)
    primaries: int | None = _whole("colorPrimaries", 255)
    transfer: int | None = _whole("transferCharacteristics", 255)
    matrix: int | None = _whole("matrixCoefficients", 255)


@dataclass(frozen=True, slots=True)
class LightLevel:
    """hdrCll, in cd/m²."""

    max_fall: float | None = _number("maxFall", 0.0001, 10_000)
    max_cll: float | None = _number("maxCLL", 0.0001, 10_000)


@dataclass(frozen=True, slots=True)
class MasteringDisplay:
    """hdrMdcv: CIE 1931 coordinates, and luminance in cd/m²."""

    red_x: float | None = _number("redX", 0.0001, 0.74)
    red_y: float | None = _number("redY", 0.0001, 0.84)
    green_x: float | None = _number("greenX", 0.0001, 0.74)
    green_y: float | None = _number("greenY", 0.0001, 0.84)
    blue_x: float | None = _number("blueX", 0.0001, 0.74)
    blue_y: float | None = _number("blueY", 0.0001, 0.84)
    white_x: float | None = _number("whitePointX", 0.0001, 0.74)
    white_y: float | None = _number("whitePointY", 0.0001, 0.84)
    max_luminance: float | None = _number("maxLuminance", 5, 10_000)
    min_luminance: float | None = _number("minLuminance", 0.0001, 5)


@dataclass(frozen=True, slots=True)
class ColourInfo:
    """colorInfo, which replaces any before it. Absent or impossible figures are None."""

    config: ColourConfig = ColourConfig()
    light: LightLevel = LightLevel()
    display: MasteringDisplay = MasteringDisplay()

    @property
    def is_reset(self) -> bool:
        """It says nothing: back to the colours of the bitstream."""
        return self == ColourInfo()

    @property
    def hdr(self) -> str | None:
        """ "PQ" or "HLG" (H.273, table 3); None for anything else."""
        return HDR_TRANSFERS.get(self.config.transfer or 0)


HDR_TRANSFERS: Final = {16: "PQ", 18: "HLG"}
CONFIG, LIGHT, DISPLAY = "colorConfig", "hdrCll", "hdrMdcv"


def read_metadata(body: bytes, limits: Limits = DEFAULT_LIMITS) -> dict[str, Any] | None:
    """{name: value}, the last one of a name; None for what is no such run."""
    if len(body) > MAX_METADATA_BYTES:
        return None
    try:
        values = amf0.decode_all(body, limits=limits, elements=limits.command_amf_elements)
    except RemoteProtocolError:
        return None
    names = values[::2]
    if len(values) % 2 or not all(isinstance(name, str) for name in names):
        return None
    return dict(zip(names, values[1::2], strict=True))


def read_colour(body: bytes, limits: Limits = DEFAULT_LIMITS) -> ColourInfo | None:
    """colorInfo, if the metadata can be read and hold one. Undefined and {} say the same: a reset."""
    metadata = read_metadata(body, limits)
    if metadata is None or COLOUR not in metadata:
        return None
    given = metadata[COLOUR]
    if not isinstance(given, dict):
        return ColourInfo() if given in (amf0.UNDEFINED, None) else None
    return ColourInfo(
        _group(ColourConfig, given.get(CONFIG)),
        _group(LightLevel, given.get(LIGHT)),
        _group(MasteringDisplay, given.get(DISPLAY)),
    )


def write_colour(info: ColourInfo) -> bytes:
    """As AMF0; a reset as Undefined, as the specification recommends."""
    groups = {CONFIG: info.config, LIGHT: info.light, DISPLAY: info.display}
    given = {name: properties for name, group in groups.items() if (properties := _properties(group))}
    return amf0.encode(COLOUR) + amf0.encode(given or amf0.UNDEFINED)


def _group(kind: type[Group], given: Any) -> Group:
    found = {}
    for each in fields(kind) if isinstance(given, Mapping) else ():  # type: ignore[arg-type]
        value = given.get(each.metadata["name"])
        if isinstance(value, int | float) and not isinstance(value, bool) and _is_within(value, each.metadata):
            found[each.name] = int(value) if "whole" in each.metadata else float(value)
    return kind(**found)


def _is_within(value: float, bounds: Mapping[str, Any]) -> bool:
    """Which no NaN is."""
    return bool(bounds["least"] <= value <= bounds["most"]) and ("whole" not in bounds or value == int(value))


def _properties(group: Any) -> dict[str, float]:
    given = {each.metadata["name"]: getattr(group, each.name) for each in fields(group)}
    return {name: value for name, value in given.items() if value is not None}
