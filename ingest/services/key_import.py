"""Keys brought over from another server by the hundred: read from a table, checked as a whole, then made at once.

All or nothing. All that can be wrong is found by reading; the one transaction that writes is of few statements, so
that encoders which ask meanwhile wait a moment only. No message quotes a key.
"""

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from ingest import command_line
from ingest.models import Application, Stream, StreamKey
from ingest.models.names import name_within, validate_networks, validate_stream_name
from ingest.services import authorization, keys

PATH, SECRET = "app/name", "key"
OPTIONAL = ("label", "expires", "max_kbps", "over_limit", "allow")
COLUMNS = (PATH, SECRET, *OPTIONAL)

MAX_LABEL = 128
MAX_KBPS = 2_147_483_647
READ_AT_ONCE = 500


class Unusable(Exception):  # noqa: N818 - an answer, not an error.
    """What is wrong with the table: a sentence for each line that can't be used, in order."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class Row:
    """One key to make, but for its stream. `line`: in the table, from 1."""

    line: int
    app: str
    name: str
    secret: str = field(repr=False)
    key: StreamKey


def read(lines: Iterable[str], moment: Callable[[str], datetime]) -> list[Row]:
    """The table's rows, or Unusable. Its first line names the columns; `moment` reads what `expires` holds."""
    reader = csv.DictReader(lines, skipinitialspace=True, strict=True)
    rows: list[Row] = []
    problems: list[str] = []
    try:
        _check_columns(reader.fieldnames or ())
        for fields in reader:
            try:
                rows.append(_row(reader.line_num, fields, moment))
            except ValidationError as error:
                problems.append(f"Line {reader.line_num}: {' '.join(error.messages)}")
    except csv.Error as error:
        problems.append(f"Line {reader.line_num}: this is no CSV: {error}.")
    if problems:
        raise Unusable(problems)
    return rows


def _check_columns(columns: Sequence[str]) -> None:
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or len(set(columns)) != len(columns) or not {PATH, SECRET} <= set(columns):
        raise Unusable([f"Line 1 must name the columns: {PATH},{SECRET} and any of {', '.join(OPTIONAL)}, each once."])


def _row(line: int, fields: dict[str, str | None], moment: Callable[[str], datetime]) -> Row:
    if None in fields or None in fields.values():  # As csv has it: too many, too few.
        raise ValidationError("It has another number of columns than line 1.")
    texts = {name: (value or "").strip() for name, value in fields.items()}
    app, slash, name = texts[PATH].partition("/")
    if not app or not slash:
        raise ValidationError(f"{PATH} must be such as live/cam1.")
    validate_stream_name(name)
    if not keys.is_sendable(texts[SECRET]):
        raise ValidationError(keys.NOT_SENDABLE)
    label, expires, networks = texts.get("label", ""), texts.get("expires", ""), texts.get("allow", "").split()
    if len(label) > MAX_LABEL:
        raise ValidationError(f"The label has more than {MAX_LABEL} characters.")
    validate_networks(networks)
    over_limit = texts.get("over_limit", "") or StreamKey.OverLimit.WARN
    if over_limit not in StreamKey.OverLimit.values:
        raise ValidationError(f"over_limit must be {' or '.join(StreamKey.OverLimit.values)}.")
    key = StreamKey(
        digest=keys.digest(texts[SECRET]),
        label=label,
        expires_at=moment(expires) if expires else None,
        max_kbps=_kbps(texts.get("max_kbps", "")),
        over_limit=over_limit,
        allowed_networks=networks,
    )
    return Row(line, app, name, texts[SECRET], key)


def _kbps(text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:12]) <= MAX_KBPS:
        raise ValidationError("max_kbps must be a whole number above 0.")
    return int(text)


def bring_over(rows: Sequence[Row], *, dry_run: bool = False) -> list[str]:
    """Makes the keys, and the streams that aren't there yet; returns their paths. Raises Unusable; with `dry_run` that
    is all it does."""
    applications = {found.name: found for found in Application.objects.filter(name__in={row.app for row in rows})}
    streams = {
        (stream.application.name, stream.name): stream
        for stream in Stream.objects.select_related("application").filter(application__in=applications.values())
    }
    asked = {*streams, *((row.app, row.name) for row in rows)}
    names = {(app, name_within(name)) for app, name in asked}  # As they are sent, within an instance too.
    problems = _problems(rows, applications, names)
    if problems:
        raise Unusable(problems)
    missing = {(row.app, row.name): None for row in rows if (row.app, row.name) not in streams}
    try:
        for app, application in applications.items():
            authorization.check_instance_room(application=application, made=[name for of, name in missing if of == app])
    except ValidationError as error:
        raise Unusable(error.messages) from None
    paths = [f"{app}/{name}" for app, name in missing]
    if dry_run:
        return paths
    try:
        with transaction.atomic():
            made = Stream.objects.bulk_create(
                [Stream(application=applications[app], name=name) for app, name in missing]
            )
            streams |= dict(zip(missing, made, strict=True))
            for row in rows:
                row.key.stream = streams[row.app, row.name]
            StreamKey.objects.bulk_create([row.key for row in rows])
    except IntegrityError:
        raise Unusable(["Streams or keys were made meanwhile that are in the table too. Try it again."]) from None
    return paths


def _problems(rows: Sequence[Row], applications: dict[str, Application], names: set[tuple[str, str]]) -> list[str]:
    wanted, taken = [row.key.digest for row in rows], set[str]()
    for at in range(0, len(wanted), READ_AT_ONCE):
        some = wanted[at : at + READ_AT_ONCE]
        taken.update(StreamKey.objects.filter(digest__in=some).values_list("digest", flat=True))
    first: dict[str, int] = {}
    problems = []
    for row in rows:
        digest = row.key.digest
        if row.app not in applications:
            problem = (
                f"There is no application {row.app!r}. Make it with: {command_line.here('application set', row.app)}"
            )
        elif (row.app, row.secret) in names:
            problem = keys.PUBLIC_NAME
        elif digest in taken:
            problem = keys.TAKEN
        elif digest in first:
            problem = f"It has the same key as line {first[digest]}."
        else:
            first[digest] = row.line
            continue
        problems.append(f"Line {row.line}: {problem}")
    return problems
