"""Peers' texts and values made fit for database rows, JSON, log lines and CSV: bounded, printable, encodable, no
formula."""

import csv
import io
import json
import math
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from unicodedata import category, normalize

MAX_ITEMS = 64
MAX_TEXT = 256
MAX_DEPTH = 4

UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
REPLACED = "\ufffd"

UNSEEN = ("Cf", "Zl", "Zp")
"""Categories of characters that stand in a text without being seen: some turn the rest of its line round (U+202E), or
begin a line.
"""
JOINERS = "\u200c\u200d"
"""Of these, those without which Persian, Hindi and some emoji can't be written."""


def text(value: object, limit: int) -> str:
    """At most `limit` characters; control characters, what can't be seen (but for JOINERS) and lone surrogates become
    U+FFFD (PostgreSQL refuses NUL).
    """
    found = UNFIT.sub(REPLACED, str(value)[:limit])
    if not has_unseen(found):
        return found
    return "".join(REPLACED if _is_unseen(sign) and sign not in JOINERS else sign for sign in found)


def has_unseen(value: str) -> bool:
    """Whether any of it is of UNSEEN: then it may look like another text."""
    return not value.isascii() and any(map(_is_unseen, value))


def _is_unseen(sign: str) -> bool:
    return category(sign) in UNSEEN


def fits(value: str) -> bool:
    """Whether a query may ask for the text: PostgreSQL refuses NUL, and no driver encodes a lone surrogate."""
    return UNFIT.search(value) is None


def jsonable(value: Any, depth: int = 0) -> Any:
    """A value of AMF as JSON: MAX_ITEMS a level and MAX_DEPTH levels at most; what JSON can't say becomes null."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return text(value, MAX_TEXT)
    if depth >= MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        items = list(value.items())[:MAX_ITEMS]
        return {text(key, MAX_TEXT): jsonable(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [jsonable(item, depth + 1) for item in value[:MAX_ITEMS]]
    return text(value, MAX_TEXT)


GENERIC: Final = re.compile(
    r"(FMLE/[\d.]+)? *(\(compatible; FMSc/[\d.]+\))?|(LNX|WIN|MAC|AND|IOS) [\d,]+", re.IGNORECASE
)
"""A flashVer that says no more than that its client speaks as Adobe's did: OBS, GStreamer and librtmp send such."""
MOST_ENCODER: Final = 255
"""Characters of an encoder's name."""


def encoder_name(known: str, metadata: Mapping[str, Any]) -> str:
    """What an encoder is called: as it is known by, which is its flashVer at first; where that says nothing, as its
    metadata say, such as "obs-output module (libobs version 30.2.3)".
    """
    named = metadata.get("encoder")
    named = named.strip()[:MOST_ENCODER] if isinstance(named, str) else ""
    return named if named and GENERIC.fullmatch(known.strip()) else known


FORMULA_SIGNS = frozenset("=+-@\N{MINUS SIGN}")
"""What a formula begins with."""


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Generator[str, None, None]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_csv_cell(value) for value in row])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, str) and _is_formula(value):
        return f"'{value}"
    if isinstance(value, dict | list):
        return json.dumps(value) if value else ""
    return value.isoformat() if isinstance(value, datetime) else value


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet might take it for one: also by a wide or a small sign, behind blanks, or behind what can't
    be seen, such as U+FEFF.
    """
    if text[:1].isalnum():
        return False
    if text[:1] in ("\t", "\r", "\n"):
        return True
    first = next((sign for sign in text if not sign.isspace() and category(sign) not in ("Cc", "Cf")), "")
    return normalize("NFKC", first)[:1] in FORMULA_SIGNS
