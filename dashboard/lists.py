"""What pages share: lists with their filters, answers to actions, and files of rows as CSV and JSON.

The process that sends a file may be the one that carries media: so rows are read and written in a thread, by pieces,
and the event loop does no more than send a piece at a time."""

import json
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from asgiref.sync import sync_to_async
from django.contrib import messages
from django.core.paginator import Paginator
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse, StreamingHttpResponse

from ingest import clean

PAGE_SIZE = 50

Row = TypeVar("Row", bound=Model)


def narrow(rows: QuerySet[Row], lookups: Mapping[str, str], values: Mapping[str, Any]) -> QuerySet[Row]:
    """Rows that match every given value; `lookups` says which field each name filters: other names filter nothing, nor
    do None and "".
    """
    wanted = {lookups[name]: value for name, value in values.items() if name in lookups and value not in (None, "")}
    return rows.filter(**wanted)


def active_filters(query: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """By name what the query string says, as the form shows it again; "" where it says nothing."""
    return {name: filter_text(query.get(name, "")) for name in names}


def filter_text(text: str) -> str:
    """Without what PostgreSQL refuses, and no longer than what it is compared with."""
    return text.strip().replace("\0", "")[:400]


def page_context(
    request: HttpRequest, rows: QuerySet[Any], filters: dict[str, str], size: int = PAGE_SIZE
) -> dict[str, Any]:
    """What the template of a list by pages is given; `query`: the query string for another page."""
    return {
        "page": Paginator(rows, size).get_page(request.GET.get("page")),
        "filters": filters,
        "is_filtered": any(filters.values()),
        "query": query_without(request, "page"),
    }


def query_without(request: HttpRequest, *names: str) -> str:
    """The page's query string but for these."""
    query = request.GET.copy()
    for name in names:
        query.pop(name, None)
    return query.urlencode()


def answer(request: HttpRequest, words: str, status: int, back: str, **more: Any) -> HttpResponse:
    """To an action: to the page `back`, which says what was done; to a script the same as JSON, with `more`."""
    if request.accepts("text/html"):
        messages.add_message(request, messages.SUCCESS if status < 400 else messages.WARNING, words)
        return HttpResponseRedirect(back)
    return JsonResponse({"detail": words, **more}, status=status)


def answer_action(
    request: HttpRequest, action: Callable[[], object], problem: type[Exception], words: str, status: int, back: str
) -> HttpResponse:
    """Does it and answers with the words and the status or, where it can't be done now, with the problem's and 409."""
    try:
        action()
    except problem as error:
        words, status = str(error), 409
    return answer(request, words, status, back)


CHUNK_ROWS = 500
"""Rows that a file's query gets from the database at a time."""

PIECE = 60 * 1024
"""Characters that are sent at a time, and what the last row is longer: Django parts what is over 64 KiB."""


def lacking_answer(sentence: str) -> HttpResponse:
    """In place of a file that would lack what the sentence says."""
    return HttpResponse(sentence, status=503, content_type="text/plain; charset=utf-8")


def file_answer(name: str, form: str, columns: Sequence[str], items: Iterable[dict[str, Any]]) -> StreamingHttpResponse:
    """`form`: json, which is `{"items": [...], "count": N}`; else CSV."""
    if form == "json":
        return _answer(f"{name}.json", "application/json", _json(items))
    return csv_answer(name, columns, ([item[column] for column in columns] for item in items))


def csv_answer(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> StreamingHttpResponse:
    return _answer(f"{name}.csv", "text/csv; charset=utf-8", clean.csv_lines(columns, rows))


def whole_file(name: str, kind: str, content: str | bytes) -> HttpResponse:
    return HttpResponse(content, content_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _answer(file: str, kind: str, lines: Generator[str, None, None]) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        Pieces(lines), content_type=kind, headers={"Content-Disposition": f'attachment; filename="{file}"'}
    )


class Pieces:
    """The lines joined to pieces, as an asynchronous iterator. Each piece is made when it is asked for."""

    _turn = threading.Lock()
    """Of all files that are being made: several at once would hold up the event loop longer, and end no sooner."""

    def __init__(self, lines: Generator[str, None, None]) -> None:
        self._lines = lines

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        piece = await sync_to_async(self._next)()  # In the request's own thread: the rows use its database connection.
        if not piece:
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        """Ends the query of a file that nobody waits for any more. Django calls it where it called the view."""
        self._lines.close()

    def _next(self) -> str:
        parts: list[str] = []
        length = 0
        with self._turn:
            for line in self._lines:
                parts.append(line)
                length += len(line)
                if length >= PIECE:
                    break
        return "".join(parts)


def _json(items: Iterable[dict[str, Any]]) -> Generator[str, None, None]:
    count = 0
    yield '{"items": ['
    for item in items:
        yield (", " if count else "") + json.dumps(item, cls=DjangoJSONEncoder)
        count += 1
    yield f'], "count": {count}}}'
