"""An answer with a secret, at the only time that it is told. It is asked for by script and put into a dialog: it has no
address of its own, so neither a reload nor the browser's history shows it, or makes another. It is never stored."""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import BadRequest, ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from ingest import command_line
from ingest.services.keys import NewKey

NEEDS_SCRIPT = "A key is shown in a dialog of the page, which needs JavaScript. Or use: " + command_line.manage(
    "streamkey create APP/NAME"
)


def needs_script(request: HttpRequest) -> None:
    """So that no page of the browser's history is the answer: a form that is sent by itself has no such header."""
    if request.headers.get("X-Requested-With") != "fetch":
        raise BadRequest(NEEDS_SCRIPT)


def answer(
    request: HttpRequest, template: str, make: Callable[[], NewKey], context: Callable[[NewKey], dict[str, Any]]
) -> HttpResponse:
    """`make` may raise ValidationError: then, with status 422, what is wrong under ""."""
    try:
        made = make()
    except ValidationError as error:
        return JsonResponse({"errors": {"": error.messages}}, status=422)
    response = render(request, template, context(made), status=201)
    response["Cache-Control"] = "no-store"
    return response
