"""CSV, line by line as its rows are read."""

import csv
import io
import json
from collections.abc import Generator, Iterable, Sequence
from datetime import datetime
from typing import Any
from unicodedata import category, normalize

SIGNS = frozenset("=+-@\N{MINUS SIGN}")
"""What a formula begins with."""


def lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Generator[str, None, None]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _cell(value: Any) -> Any:
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
    return normalize("NFKC", first)[:1] in SIGNS
