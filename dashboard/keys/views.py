"""Stream keys: the list, one key, and what is done to them. A secret is in the answer to its making, nowhere else."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest, ValidationError
from django.db import transaction
from django.db.models import Q
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from dashboard.access import actor_of, post_view, safe_view
from dashboard.attempts.queries import attempts, refused_publishers
from dashboard.keys import key_test, shown_once
from dashboard.keys import queries as keys_queries
from dashboard.lists import active_filters, page_context
from dashboard.zones import MomentField
from ingest.models import Application, Attempt, Stream, StreamKey, names
from ingest.models.names import NetworksField, validate_app_name, validate_stream_name
from ingest.services import actions as services_actions
from ingest.services import audit, media_urls, test_links
from ingest.services.keys import NewKey
from ingest.services.roles import Ability

GRACES = {
    "0": (timedelta(0), "Not at all: what is live ends now"),
    "1h": (timedelta(hours=1), "1 hour"),
    "24h": (timedelta(hours=24), "24 hours"),
    "7d": (timedelta(days=7), "7 days"),
}
"""How long a rotated key may keep working."""
GRACE_CHOICES = [(name, words) for name, (_, words) in GRACES.items()]

MOST_KBPS = 2_000_000


class RightsForm(forms.Form):
    label = forms.CharField(max_length=128, required=False, empty_value="")
    expires_at = MomentField(required=False)
    max_kbps = forms.IntegerField(required=False, min_value=1, max_value=MOST_KBPS)
    over_limit = forms.ChoiceField(
        choices=StreamKey.OverLimit.choices, initial=StreamKey.OverLimit.WARN, required=False
    )
    allowed_networks = NetworksField(required=False)
    test_only = forms.BooleanField(required=False)

    def clean_label(self) -> str:
        label: str = self.cleaned_data["label"]
        if not label.isprintable():
            raise ValidationError("Use printable characters.")
        return label

    def clean_over_limit(self) -> str:
        return self.cleaned_data["over_limit"] or StreamKey.OverLimit.WARN

    def rights(self) -> dict[str, Any]:
        """As `create_key` and `change_key` take them."""
        return {name: self.cleaned_data[name] for name in RightsForm.base_fields}


class CreateForm(RightsForm):
    """Of a new one. The stream is made if it isn't there."""

    stream = forms.CharField(max_length=400)

    def clean_stream(self) -> tuple[Application, str]:
        app, slash, name = self.cleaned_data["stream"].strip().partition("/")
        if not slash or not name:
            raise ValidationError("Give the application and the stream, such as live/cam1.")
        application = Application.objects.filter(name=app).first()
        if application is None:
            known = ", ".join(Application.objects.values_list("name", flat=True)[:10])
            raise ValidationError(
                f"There is no application {app}. There is: {known}." if known else "There is no application yet."
            )
        validate_stream_name(name)
        return application, name

    def clean_expires_at(self) -> datetime | None:
        expires: datetime | None = self.cleaned_data["expires_at"]
        if expires is not None and expires <= timezone.now():
            raise ValidationError(f"This time is over: now it is {timezone.localtime():%-d %b, %H:%M}.")
        return expires


class ApplicationForm(forms.Form):
    """Of a new one, with its first stream."""

    application = forms.CharField(max_length=128, validators=[validate_app_name])
    stream = forms.CharField(max_length=255, validators=[validate_stream_name])
    play_policy = forms.ChoiceField(choices=Application.PlayPolicy.choices)
    record = forms.ChoiceField(choices=Application.RecordPolicy.choices)

    def clean_application(self) -> str:
        name: str = self.cleaned_data["application"]
        if Application.objects.filter(name=name).exists():
            raise ValidationError(f"There is an application {name} already: create a key for a stream of it.")
        return name


class RotateForm(forms.Form):
    grace = forms.ChoiceField(choices=GRACE_CHOICES, initial="0")


REFUSED_WITHIN = timedelta(minutes=15)
REFUSED_SHOWN = 12
STREAMS_OFFERED = 500


@safe_view(Ability.MANAGE_KEYS)
def keys(request: HttpRequest) -> HttpResponse:
    """Those that were used last come first, by pages. What can't be understood filters nothing."""
    filters = active_filters(request.GET, ("q", "state"))
    context = page_context(request, keys_queries.rows(text=filters["q"], state=filters["state"]), filters)
    lately = refused_publishers(timezone.now() - REFUSED_WITHIN).select_related("stream__application")
    refused = list(lately[:200])
    return render(
        request,
        "dashboard/keys.html",
        context
        | {
            "rows": [keys_queries.key_row(key) for key in context["page"].object_list],
            "states": keys_queries.STATES.items(),
            "counts": keys_queries.counts(),
            "refused": refused[:REFUSED_SHOWN],
            "refused_count": sum(row.count for row in refused),
            "streams": Stream.objects.select_related("application")[:STREAMS_OFFERED],
            "form": CreateForm(initial={"stream": request.GET.get("stream", "")[:255]}),
        },
    )


@safe_view(Ability.MANAGE_KEYS)
def key(request: HttpRequest, pk: int) -> HttpResponse:
    found = keys_queries.key_of(pk)
    form = RightsForm(initial={name: getattr(found, name) for name in RightsForm.base_fields})
    return render(request, "dashboard/key.html", _context(request, found) | {"form": form})


@safe_view(Ability.MANAGE_KEYS)
def waiting(request: HttpRequest, pk: int) -> HttpResponse:
    """The checklist that fills while an encoder is tried out."""
    found, now = keys_queries.key_of(pk), timezone.now()
    return render(
        request,
        "dashboard/key_test.html",
        _context(request, found)
        | {
            "progress": key_test.progress(found, since=now, operator=audit.client_address(request)),
            "boot": {
                "url": f"{reverse('dashboard:key-progress', args=[pk])}?since={now.timestamp():.3f}",
                "since": now.timestamp(),
            },
            "minutes": names.TEST_MOST // timedelta(minutes=1),
        },
    )


@never_cache
@safe_view(Ability.MANAGE_KEYS)
def progress(request: HttpRequest, pk: int) -> JsonResponse:
    """What has come since `since` (seconds since the epoch), as `key_test.Progress`."""
    try:
        since = datetime.fromtimestamp(float(request.GET.get("since", "")), UTC)
    except (ValueError, OverflowError, OSError):
        raise BadRequest("since is no time") from None
    found = key_test.progress(keys_queries.key_of(pk), since=since, operator=audit.client_address(request))
    return JsonResponse(asdict(found) | {"at": timezone.now().timestamp()})


@post_view(Ability.MANAGE_KEYS)
def create(request: HttpRequest) -> HttpResponse:
    """The new key's secret, once; or, with status 422, what is wrong."""
    shown_once.needs_script(request)
    form = CreateForm(request.POST)
    if not form.is_valid():
        return _wrong(form)
    actor, (application, name) = actor_of(request), form.cleaned_data["stream"]

    @transaction.atomic
    def create_key() -> NewKey:
        stream = services_actions.make_stream(actor, application, name)
        return services_actions.create_key(actor, stream=stream, **form.rights())

    return _show_once(request, "created", create_key)


@post_view(Ability.MANAGE_STREAMS)
def create_application(request: HttpRequest) -> HttpResponse:
    """With its first stream and that one's key: the secret, once; or, with status 422, what is wrong."""
    shown_once.needs_script(request)
    form = ApplicationForm(request.POST)
    if not form.is_valid():
        return _wrong(form)
    actor, given = actor_of(request), form.cleaned_data

    @transaction.atomic
    def create_all() -> NewKey:
        application = Application(name=given["application"])
        services_actions.save_application(actor, application, play_policy=given["play_policy"], record=given["record"])
        stream = services_actions.make_stream(actor, application, given["stream"])
        return services_actions.create_key(actor, stream=stream)

    return _show_once(request, "created", create_all)


@post_view(Ability.MANAGE_KEYS)
def rotate(request: HttpRequest, pk: int) -> HttpResponse:
    shown_once.needs_script(request)
    form, key = RotateForm(request.POST), keys_queries.key_of(pk)
    if not form.is_valid():
        return _wrong(form)
    grace, _ = GRACES[form.cleaned_data["grace"]]
    return _show_once(request, "rotated", partial(services_actions.rotate_key, actor_of(request), key, grace=grace))


@post_view(Ability.MANAGE_KEYS)
def change(request: HttpRequest, pk: int) -> HttpResponse:
    key = keys_queries.key_of(pk)
    form = RightsForm(request.POST)
    try:
        if form.is_valid():
            services_actions.change_key(actor_of(request), key, **form.rights())
            messages.success(request, f"{key} is changed. What it says holds from the encoder’s next connection on.")
            return HttpResponseRedirect(reverse("dashboard:key", args=[pk]))
    except ValidationError as error:
        form.add_error(None, error)
    context = _context(request, keys_queries.key_of(pk)) | {"form": form}
    return render(request, "dashboard/key.html", context, status=422)


@post_view(Ability.MANAGE_KEYS)
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    key = keys_queries.key_of(pk)
    services_actions.revoke_key(actor_of(request), key)
    messages.success(request, f"{key} is revoked. What is live with it ends within 2 s.")
    of = key.link_of_id
    return HttpResponseRedirect(reverse("dashboard:key", args=[of]) if of else reverse("dashboard:keys"))


@post_view(Ability.MANAGE_KEYS)
def enable(request: HttpRequest, pk: int) -> HttpResponse:
    """Or disables it: `enabled` is 0."""
    key, enabled = keys_queries.key_of(pk), request.POST.get("enabled") == "1"
    services_actions.enable_key(actor_of(request), key, enabled)
    words = "can be used again." if enabled else "is disabled. What is live with it ends within 2 s."
    messages.success(request, f"{key} {words}")
    return HttpResponseRedirect(reverse("dashboard:key", args=[pk]))


def _context(request: HttpRequest, key: StreamKey) -> dict[str, Any]:
    rows = attempts().filter(Q(key=key) | Q(stream=key.stream))
    live = key.sessions.filter(ended_at__isnull=True).order_by("-started_at").first()
    return {
        "row": keys_queries.key_row(key),
        "key": key,
        "live": live,
        "server": media_urls.server_of(stream=key.stream, page=media_urls.page_host(request)),
        "links": [keys_queries.key_row(link) for link in test_links.of_key(key)[: test_links.MOST * 2]],
        "lifetimes": [(name, words) for name, (_, words) in test_links.LIFETIMES.items()],
        "attempts": rows.exclude(action=Attempt.Action.PLAY)[:REFUSED_SHOWN],
        "graces": GRACE_CHOICES,
    }


def _wrong(form: Form) -> JsonResponse:
    """By field what is wrong; of the whole under ""."""
    errors = {"" if name == "__all__" else name: texts for name, texts in form.errors.items()}
    return JsonResponse({"errors": errors}, status=422)


def _show_once(request: HttpRequest, verb: str, make: Callable[[], NewKey]) -> HttpResponse:
    def context(made: NewKey) -> dict[str, Any]:
        paste = media_urls.strings(stream=made.key.stream, secret=made.secret, page=media_urls.page_host(request))
        return {"key": made.key, "paste": paste, "verb": verb}

    return shown_once.answer(request, "dashboard/_key_made.html", make, context)
