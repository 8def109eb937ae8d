"""Texts that publishers send as data to be shown with the picture: `onTextData` (FLV 10.1, annex E.5), an object with
`text`, `language` and `trackid`. What comes of them: which text of a track is shown when."""

import re
from collections import deque
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple
from unicodedata import category

from ingest.hls.settings import HlsSettings
from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.messages.commands import decode_data

MARK: Final = b"\x02\x00\x0aonTextData"
"""What such a message begins with: AMF0's string."""
UNSEEN: Final = frozenset({"Cc", "Cs"})
"""Categories of characters that no text needs: controls, and halves of pairs."""
MOST_TRACK: Final = 1 << 31

_language: Final = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}")


class TextKey(NamedTuple):
    """What tells tracks of texts apart."""

    number: int
    language: str
    """Of BCP 47; "": it is not told, or is none."""


@dataclass(frozen=True, slots=True)
class Text:
    key: TextKey
    lines: tuple[str, ...]
    """Without any nothing is shown any more."""


def is_text(payload: bytes, settings: HlsSettings) -> bool:
    """Whether a data message in AMF0 may be one: by that, others cost nothing."""
    return payload.startswith(MARK) and len(payload) <= settings.text_message_bytes


def read_text(payload: bytes, settings: HlsSettings) -> Text | None:
    """None: it can't be read."""
    try:
        values = decode_data(payload, DEFAULT_LIMITS).values
    except RemoteProtocolError:
        return None
    value = values[0] if values else None
    fields: dict[str, Any] = value if isinstance(value, dict) else {"text": value}
    words = fields.get("text")
    if not isinstance(words, str):
        return None
    return Text(TextKey(_number(fields.get("trackid")), _language_of(fields.get("language"))), _lines(words, settings))


def _number(value: object) -> int:
    return int(value) if isinstance(value, float) and isfinite(value) and 0 <= value < MOST_TRACK else 0


def _language_of(value: object) -> str:
    return value if isinstance(value, str) and _language.fullmatch(value) else ""


def _lines(words: str, settings: HlsSettings) -> tuple[str, ...]:
    """Without what is not seen, and without empty ones, which would end a cue."""
    lines = words[: settings.text_characters].replace("\t", " ").splitlines()
    seen = ("".join(each for each in line if category(each) not in UNSEEN).strip() for line in lines)
    return tuple(line for line in seen if line)[: settings.text_lines]


class Cue(NamedTuple):
    start_ms: int
    end_ms: int
    lines: tuple[str, ...]


class TextTrack:
    """Of one track: a text lasts until the next one, or for `text_s`. Times are of the packaging, in ms."""

    def __init__(self, settings: HlsSettings) -> None:
        self._lasts_ms = round(settings.text_s * 1000)
        self._coming: deque[tuple[int, tuple[str, ...]]] = deque(maxlen=settings.waiting_texts)
        self._lines: tuple[str, ...] = ()
        self._until_ms = 0

    def add(self, time_ms: int, lines: tuple[str, ...]) -> None:
        """What is before those that came already is shown after them."""
        latest_ms = self._coming[-1][0] if self._coming else time_ms
        self._coming.append((max(time_ms, latest_ms), lines))

    def clear(self) -> None:
        self._coming.clear()
        self._lines = ()

    def cues(self, start_ms: int, end_ms: int) -> list[Cue]:
        """Of that time, which follows the time that was asked for before. A text that goes on has a cue in each."""
        found: list[Cue] = []
        at_ms = start_ms
        while self._coming and self._coming[0][0] < end_ms:
            time_ms, lines = self._coming.popleft()
            self._show(found, at_ms, time_ms)
            at_ms, self._lines, self._until_ms = max(time_ms, start_ms), lines, time_ms + self._lasts_ms
        self._show(found, at_ms, end_ms)
        return found

    def _show(self, found: list[Cue], start_ms: int, end_ms: int) -> None:
        end_ms = min(end_ms, self._until_ms)
        if self._lines and end_ms > start_ms:
            found.append(Cue(start_ms, end_ms, self._lines))
