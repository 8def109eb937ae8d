"""What a request names: /live/APP/NAME.flv or /recordings/APP/NAME.flv, with its query as it came.

NAME may be INSTANCE/NAME.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, cast
from urllib.parse import unquote_to_bytes

from ingest.server import credentials

Kind = Literal["live", "recordings"]

KINDS: Final = ("live", "recordings")
SUFFIX: Final = ".flv"

MOST_S: Final = 1 << 32
"""Of `start`: more than any file has."""


class UnreadableTarget(ValueError):  # noqa: N818 - a finding, not an error of ours.
    """It is no text in UTF-8 once it is percent-decoded."""


@dataclass(frozen=True, slots=True)
class Target:
    kind: Kind
    app: str
    name: str
    """Without the suffix, decoded."""
    query: str = field(repr=False)
    """Without '?', not decoded: it may have a token."""


def start_of(target: Target) -> int | None:
    """From where a recording is to be played, ms; None: all of the file. Raises UnreadableTarget."""
    found = credentials.query_fields(target.query).get("start")
    if found is None or target.kind != "recordings":
        return None
    try:
        seconds = float(found)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MOST_S:
        raise UnreadableTarget("start is no time")
    return round(seconds * 1000)


def read_target(raw: bytes) -> Target | None:
    """Of a request's line; None for a path under which there is nothing. Raises UnreadableTarget."""
    path, _, query = raw.partition(b"?")
    parts = path.split(b"/")
    if len(parts) not in (4, 5) or parts[0]:
        return None
    try:
        _, kind, app, *rest = (unquote_to_bytes(part).decode() for part in parts)
    except UnicodeDecodeError as error:
        raise UnreadableTarget(str(error.reason)) from error
    file = "/".join(rest)
    name = file.removesuffix(SUFFIX)
    # No stream's name has a '?': it would be taken for the beginning of another query.
    if kind not in KINDS or not app or not all(name.split("/")) or name == file or "?" in name:
        return None
    return Target(cast(Kind, kind), app, name, query.decode("ascii", "replace"))
