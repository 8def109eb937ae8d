"""What people do with a stream's push targets and its pull source on its page: each by a form, with or without a
script."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse

from dashboard.access import actor_of, post_view
from dashboard.lists import answer_action
from dashboard.streams import relays
from dashboard.streams.actions import ActionProblem
from dashboard.streams.queries import stream_row
from ingest.models import PullSource, PushTarget, Stream
from ingest.services.roles import Ability


@post_view(Ability.MANAGE_KEYS)
def create_push(request: HttpRequest, app: str, name: str) -> HttpResponse:
    stream = stream_row(app, name)
    action = partial(relays.save_target, actor_of(request), PushTarget(stream=stream), _target_values(request))
    return _answer(request, stream, action, "The target is added.", 201)


@post_view(Ability.MANAGE_KEYS)
def change_push(request: HttpRequest, pk: int) -> HttpResponse:
    target = _target(pk)
    action = partial(relays.save_target, actor_of(request), target, _target_values(request))
    return _answer(request, target.stream, action, "The target is changed: it holds within 2 s.")


@post_view(Ability.MANAGE_KEYS)
def delete_push(request: HttpRequest, pk: int) -> HttpResponse:
    target = _target(pk)
    action = partial(relays.remove_target, actor_of(request), target)
    return _answer(request, target.stream, action, "The target is removed; what was pushed there ends within 2 s.")


@post_view(Ability.PUSH)
def start_push(request: HttpRequest, pk: int) -> HttpResponse:
    target = _target(pk)
    action = partial(relays.run_target, actor_of(request), target, starts=True)
    return _answer(request, target.stream, action, f"The push to {target.label} starts.")


@post_view(Ability.PUSH)
def stop_push(request: HttpRequest, pk: int) -> HttpResponse:
    target = _target(pk)
    action = partial(relays.run_target, actor_of(request), target, starts=False)
    return _answer(request, target.stream, action, f"The push to {target.label} ends within 2 s.")


@post_view(Ability.MANAGE_KEYS)
def save_pull(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """Makes the stream's pull source, or changes it."""
    stream, given = stream_row(app, name), request.POST
    values = {name: given[name] for name in ("url", "when") if name in given} | {"enabled": "enabled" in given}
    action = partial(relays.save_source, actor_of(request), stream, values)
    return _answer(request, stream, action, "The source is saved: it holds within 2 s.")


@post_view(Ability.MANAGE_KEYS)
def delete_pull(request: HttpRequest, pk: int) -> HttpResponse:
    source = get_object_or_404(PullSource.objects.select_related("stream__application"), pk=pk)
    stream = source.stream
    action = partial(relays.remove_source, actor_of(request), source)
    return _answer(request, stream, action, "The source is removed; what was pulled ends within 2 s.")


def _target(pk: int) -> PushTarget:
    return get_object_or_404(PushTarget.objects.select_related("stream__application"), pk=pk)


def _target_values(request: HttpRequest) -> dict[str, Any]:
    given = request.POST
    values: dict[str, Any] = {name: given[name] for name in ("label", "url", "key", "starts") if name in given}
    return values | {"enabled": "enabled" in given}


def _answer(
    request: HttpRequest, stream: Stream, action: Callable[[], object], words: str, status: int = 200
) -> HttpResponse:
    page = reverse("dashboard:stream", args=[stream.application.name, stream.name])

    def act() -> None:
        try:
            action()
        except ValidationError as problem:
            raise ActionProblem(relays.problem_words(problem)) from None

    return answer_action(request, act, ActionProblem, words, status, page)
