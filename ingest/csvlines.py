"""CSV, line by line as its rows are read."""

import csv
import io
import json
from collections.abc import Generator, Iterable, Sequence
from datetime import datetime
from typing import Any


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
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return f"'{value}"  # Else a spreadsheet would take a stream's name for a formula.
    if isinstance(value, dict | list):
        return json.dumps(value) if value else ""
    return value.isoformat() if isinstance(value, datetime) else value
