"""The API under /api/v1/: its routers, what becomes of errors (every one is {"detail": ...}), and its description.

The description is OpenAPI that names each operation's ability, and a page of our own that shows it, at /api/v1/docs:
Ninja's own page loads its script from elsewhere and has inline ones, and a strict policy forbids both. Each noun's
operations are in its `api.py`; what they share is in `dashboard.api_base`."""

from collections.abc import Callable, Iterator
from functools import cache, partial, wraps
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from analytics.periods import PeriodProblem
from analytics.reports.subprocess_jobs import NotMade
from analytics.scopes import NoSuchScope
from dashboard.access import bearer_abilities, require_ability
from dashboard.alerts.api import router as alerts_router
from dashboard.api_base import allow
from dashboard.attempts.api import router as attempts_router
from dashboard.audit.api import router as audit_router
from dashboard.history.api import router as rollups_router
from dashboard.keys.api import router as keys_router
from dashboard.nodes.api import router as nodes_router
from dashboard.recordings.api import router as recordings_router
from dashboard.recordings.queries import MediaOff
from dashboard.reports.api import router as reports_router
from dashboard.sessions.api import router as sessions_router
from dashboard.streams import queries as streams_queries  # noqa: F401 - registers `stream`.
from dashboard.streams.actions import ActionProblem
from dashboard.streams.api import router as streams_router
from dashboard.streams.applications_api import router as applications_router
from dashboard.streams.relays_api import router as relays_router
from dashboard.system.api import router as system_router
from dashboard.system.probes import AWAY
from dashboard.system.unavailable import failed
from ingest import command_line
from ingest.services.nodes import NodeError
from ingest.services.recordings import RecordingProblem
from ingest.services.removal import InTheWay
from ingest.services.roles import ABILITIES, Ability

__all__ = ["api"]

View = Callable[..., HttpResponse]
Json = dict[str, Any]

PROBLEM = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
GATES = {
    401: "No token or session, or a token that is unknown, expired or revoked.",
    403: "The role lacks the ability, or a session's request the CSRF token.",
    503: "The database or Redis does not answer.",
}
"""What every operation may answer."""


class DescribedSchema(OpenAPISchema):
    """Says of each operation which ability it needs, who has it, and what every operation may answer: 404, too, where
    its path names something.
    """

    def operation_details(self, operation: Operation) -> Json:
        details: Json = super().operation_details(operation)
        ability = ability_of(operation)
        details["x-ability"] = ability.value
        details["x-roles"] = [role for role, abilities in ABILITIES.items() if ability in abilities]
        needs = f"Needs the ability `{ability.value}`: {', '.join(details['x-roles'])}."
        details["description"] = "\n\n".join(filter(None, (details.get("description"), needs)))
        answers = GATES | ({404: "Not Found"} if any(each["in"] == "path" for each in details["parameters"]) else {})
        problems = {status: {"description": words, **PROBLEM} for status, words in answers.items()}
        details["responses"] = problems | details["responses"]
        return details


def ability_of(operation: Operation) -> Ability:
    """Every operation has an `auth=allow(...)`, its own or the API's."""
    found: set[Ability] = {callback.ability for callback in operation.auth_callbacks if hasattr(callback, "ability")}
    (ability,) = found
    return ability


class Api(NinjaAPI):
    def get_openapi_schema(self, *, path_prefix: str | None = None, path_params: Json | None = None) -> OpenAPISchema:
        return _described(self, self.get_root_path(path_params or {}) if path_prefix is None else path_prefix)


@cache
def _described(api: NinjaAPI, prefix: str) -> OpenAPISchema:
    """Made once, as it takes a third of a second: all operations are there before the first request."""
    return DescribedSchema(api, prefix)


def gate(view: View) -> View:
    """For who may view: by a session, as pages are, or by a token, as the API is."""
    behind_login = require_ability(Ability.VIEW)(view)

    @require_safe
    @wraps(behind_login)
    def gated(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        abilities = bearer_abilities(request)
        if abilities is not None:
            if Ability.VIEW in abilities:
                return view(request, *args, **kwargs)
            return JsonResponse({"detail": "This token is unknown, expired or revoked."}, status=401)
        if request.path.endswith(".json") and not request.user.is_authenticated:
            return JsonResponse({"detail": "Send `Authorization: Bearer TOKEN`."}, status=401)
        answer: HttpResponse = behind_login(request, *args, **kwargs)
        return answer

    return gated


# --- The page ---


class DocsPage(DocsBase):
    """The description as one page: the operations by their tag, then the shapes that they take and answer."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        schema = api.get_openapi_schema(path_params=kwargs)
        shapes = schema["components"]["schemas"]
        return render(
            request,
            "dashboard/api.html",
            {
                "description": api.description,
                "openapi_url": self.get_openapi_url(api, kwargs),
                "tags": _by_tag(schema["paths"]),
                "shapes": [_shape(name, shapes[name]) for name in sorted(shapes)],
            },
        )


def _by_tag(paths: Json) -> dict[str, list[Json]]:
    tags: dict[str, list[Json]] = {}
    for path, methods in paths.items():
        for method, details in methods.items():
            tags.setdefault(details["tags"][0], []).append(_operation(method, path, details))
    return tags


def _operation(method: str, path: str, details: Json) -> Json:
    body = details.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return {
        "id": details["operationId"],
        "method": method.upper(),
        "path": path,
        "words": details["description"].partition("\n\nNeeds the ability")[0],
        "ability": details["x-ability"],
        "roles": details["x-roles"],
        "parameters": [
            _field(each["name"], each["schema"], each.get("required", False)) | {"where": each["in"]}
            for each in details["parameters"]
        ],
        "body": _type_of(body) if body else None,
        "answers": list(_answers(details["responses"])),
    }


def _answers(responses: Json) -> Iterator[Json]:
    for status, answer in sorted(responses.items(), key=lambda item: int(item[0])):
        schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
        yield {"status": status, "words": GATES.get(int(status), HTTPStatus(int(status)).phrase), **_type_of(schema)}


def _shape(name: str, schema: Json) -> Json:
    required = schema.get("required", ())
    fields = [_field(field, each, field in required) for field, each in schema.get("properties", {}).items()]
    return {"name": name, "words": schema.get("description", ""), "fields": fields}


def _field(name: str, schema: Json, required: bool) -> Json:
    return {"name": name, "required": required, "words": schema.get("description", ""), **_type_of(schema)}


def _type_of(schema: Json) -> Json:
    """`type` in words, and the first `shape` that it leads to."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {"type": name, "shape": name}
    if schema.get("type") == "array":
        item = _type_of(schema.get("items", {}))
        return {"type": f"list of {item['type']}", "shape": item["shape"]}
    parts = [_type_of(part) for part in schema.get("anyOf") or schema.get("allOf") or ()]
    if parts:
        shapes = (part["shape"] for part in parts if part["shape"])
        return {"type": " or ".join(part["type"] for part in parts), "shape": next(shapes, "")}
    return {"type": _plain_type(schema), "shape": ""}


def _plain_type(schema: Json) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    words = str(schema.get("format") or schema.get("type") or "")
    least, most = schema.get("minimum"), schema.get("maximum")
    return f"{words}, {least} to {most}" if least is not None and most is not None else words


DESCRIPTION = (
    "Send `Authorization: Bearer TOKEN`, made under Settings, API tokens, or by "
    f"`{command_line.short('apitoken create NAME --role ROLE')}`; or use the dashboard's session. "
    'Lists are `{"items": [...], "count": N}`, newest first; times are ISO 8601 in UTC.'
)

api = Api(
    title="rtmpweb",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api-1",
    docs=DocsPage(),
    docs_url="/docs",
    docs_decorator=gate,
    auth=allow(Ability.VIEW),  # For an operation that names no ability of its own: none is open by oversight.
)
for _router in (
    streams_router,
    sessions_router,
    attempts_router,
    recordings_router,
    rollups_router,
    reports_router,
    nodes_router,
    applications_router,
    relays_router,
    keys_router,
    audit_router,
    alerts_router,
    system_router,
):
    api.add_router("", _router)

PROBLEMS: dict[type[Exception], int] = {
    **dict.fromkeys((ActionProblem, InTheWay, NodeError, RecordingProblem), 409),
    **dict.fromkeys((PeriodProblem, NoSuchScope), 400),
    **dict.fromkeys((MediaOff, NotMade), 503),
}
"""By what was raised, the answer's status: it can't be done now, or at all. The message says why."""


def _problem(request: HttpRequest, error: Exception, status: int) -> HttpResponse:
    return JsonResponse({"detail": str(error)}, status=status)


for _kind, _status in PROBLEMS.items():
    api.exception_handler(_kind)(partial(_problem, status=_status))
for _away in AWAY:
    api.exception_handler(_away)(failed)  # Says so, rather than that nothing is on air.
