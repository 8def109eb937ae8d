"""The admin's site and the base of its lists: whoever sets something up by the role gets in, its tables stand in groups
of the dashboard's words, and a form that a page of the dashboard led to leads back there. Whatever is added, changed or
deleted in a form is written into the audit log, and a page of a table that grows without end costs the same however
much history there is.

What its actions do (revoke, drain) has its entry from `ingest.services.actions`. Not in `ingest.admin`: the site is
made when that is loaded, to register its models."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Manager, Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.text import capfirst

from ingest.models import Stream, StreamKey
from ingest.services import audit
from ingest.services.audit import actor_of
from ingest.services.roles import Ability, user_abilities
from ingest.services.sql import MAX_COUNT, count_up_to

AnyAdmin = admin.ModelAdmin[Any]
if TYPE_CHECKING:
    MixinBase = AnyAdmin
else:
    MixinBase = object

SUBJECTS: Mapping[type[Model], str] = {StreamKey: "key"}
"""Of those whose model has a longer name than people give them."""

SECRET = re.compile(r"passw|secret|token|existing_key|digest|sealed", re.IGNORECASE)
"""Names of fields whose values are in no log."""

UNSAID = "not shown"

OWN = ("ingest", "analytics", "dashboard")
"""Applications whose actions make their entries themselves."""

MOST_OF_ACTION = 100
"""Entries of one action of another package's admin; a page of its list has as many rows."""


class AuditedMixin(AnyAdmin):
    """A model's admin with entries for what its forms do.

    `records_itself`, where the admin has it: the verbs (create, change, delete) whose entries its own code makes.
    """

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        request._changes = changes(form, add=add) | of_rows(formsets or ())  # type: ignore[attr-defined]
        return super().construct_change_message(request, form, formsets, add)

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        self._record(request, obj, "create", message)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        self._record(request, obj, "change", message)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Iterable[Model]) -> Any:
        queryset = list(queryset)
        for obj in queryset:
            self._record(request, obj, "delete", [])
        return super().log_deletions(request, queryset)  # type: ignore[arg-type]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found = super().get_changelist_instance(request)
        if not found.is_popup:
            found.title = capfirst(label_of(self.model))
        return found

    def response_post_save_change(self, request: HttpRequest, obj: Model) -> HttpResponseRedirect:
        return _way_back(request) or super().response_post_save_change(request, obj)

    def response_post_save_add(self, request: HttpRequest, obj: Model) -> HttpResponseRedirect:
        return _way_back(request) or super().response_post_save_add(request, obj)

    def response_action(self, request: HttpRequest, queryset: "QuerySet[Model]", *args: Any) -> Any:
        action = request.POST.get("action", "")
        if action == "delete_selected" and "delete" in getattr(self, "records_itself", ()):
            return super().response_action(request, queryset, *args)  # In transactions of its own.
        with transaction.atomic():
            answer = super().response_action(request, queryset, *args)
            if type(self).__module__.partition(".")[0] not in OWN and action not in ("", "delete_selected"):
                for pk in request.POST.getlist("_selected_action")[:MOST_OF_ACTION]:
                    audit.record(actor_of(request), f"{subject(self.model)}.{action}"[:64], f"number {pk}")
            return answer

    def _record(self, request: HttpRequest, obj: Model, verb: str, message: Any) -> None:
        """`message`: a text where an action of the project's own tells Django's history what it did."""
        if verb in getattr(self, "records_itself", ()) or isinstance(message, str):
            return
        changed = getattr(request, "_changes", {}) if verb != "delete" else {}
        if verb == "change" and not changed:
            return
        detail: dict[str, Any] = {"changed": changed} if changed else {}
        stream = obj if isinstance(obj, Stream) else getattr(obj, "stream", None)
        audit.record(
            actor_of(request),
            f"{subject(type(obj))}.{verb}",
            audit.name_of(obj),
            stream=stream if isinstance(stream, Stream) and verb != "delete" else None,
            **detail,
        )


def subject(model: type[Model]) -> str:
    """Such as encoder_login of EncoderLogin."""
    return SUBJECTS.get(model) or re.sub(r"(?<!^)(?=[A-Z])", "_", model.__name__).lower()


def changes(form: forms.BaseForm, *, add: bool) -> dict[str, list[Any]]:
    """By field: what it was and what it is; of a new row only what it is. Secrets aren't told."""
    changed: dict[str, list[Any]] = {}
    for name in form.changed_data:
        field = form.fields.get(name)
        if field is None or SECRET.search(name) or isinstance(field.widget, forms.PasswordInput):
            changed[name] = [UNSAID]
            continue
        now = plain(form.cleaned_data.get(name))
        changed[name] = [now] if add else [_before(field, form.initial.get(name)), now]
    return changed


def of_rows(formsets: Iterable[Any]) -> dict[str, list[Any]]:
    """By row of an inline: what changed in it."""
    changed: dict[str, list[Any]] = {}
    for formset in formsets:
        for form in formset.forms:
            if form in formset.deleted_forms:
                changed[str(form.instance)] = ["deleted"]
            elif form.has_changed():
                changed[str(form.instance)] = [changes(form, add=form in formset.extra_forms)]
    return changed


def _before(field: forms.Field, value: Any) -> Any:
    """A row that was chosen is kept as its key."""
    if isinstance(field, forms.ModelChoiceField) and not isinstance(value, Model | list | tuple | type(None)):
        value = field.queryset.filter(pk=value).first()  # type: ignore[union-attr]
    return plain(value)


def plain(value: Any) -> Any:
    if isinstance(value, QuerySet | Manager):
        value = list(value.all())
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str | dict) else str(value)


def _way_back(request: HttpRequest) -> HttpResponseRedirect | None:
    """To the page that led to the form, if it is one of ours: `next` of the form's address."""
    back = request.GET.get("next", "")
    ours = url_has_allowed_host_and_scheme(back, {request.get_host()}, request.is_secure())
    return HttpResponseRedirect(back) if ours else None


SETS_UP = frozenset((Ability.MANAGE_KEYS, Ability.MANAGE_STREAMS, Ability.MANAGE_TOKENS))
"""Who has one of these gets into the admin; what is to be seen there is by permission."""

LABELS: Mapping[str, str] = {
    "auth.group": "roles",
    "dashboard.apitoken": "API tokens",
    "django_celery_beat.periodictask": "schedules",
    "ingest.attempt": "refused connections",
    "ingest.statusevent": "events of sessions",
    "analytics.reportplan": "report schedules",
    "analytics.reportdelivery": "report deliveries",
    "analytics.runline": "log of analytics jobs",
    "analytics.analyticsrun": "analytics jobs",
    "analytics.partition": "data by hour",
    "analytics.rollup": "figures by hour and day",
}
"""Of tables whose name here is another than their model's."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Streams and who may publish": tuple(
        f"ingest.{model}"
        for model in ("application", "stream", "streamkey", "encoderlogin", "pushtarget", "pullsource", "ban")
    ),
    "Users and scripts": ("auth.user", "auth.group", "dashboard.apitoken"),
    "Reports and schedules": (
        "analytics.reportplan",
        *(f"django_celery_beat.{model}" for model in ("periodictask", "crontabschedule", "intervalschedule")),
    ),
    "Records (read only)": (
        *(f"ingest.{model}" for model in ("session", "statusevent", "attempt", "recording", "sharedobject")),
        *(f"ingest.{model}" for model in ("node", "lease")),
        *(f"analytics.{model}" for model in ("report", "reportdelivery", "analyticsrun", "runline")),
        *(f"analytics.{model}" for model in ("partition", "rollup")),
    ),
}
"""The tables as the admin's first page lists them. What is in none comes last."""

HIDDEN = ("django_celery_beat.clockedschedule", "django_celery_beat.solarschedule")
"""Kinds of schedules that nothing here uses; a schedule's own form still leads to them."""


def label_of(model: type[Model]) -> str:
    """A table's name, in lower case where it is no name of its own."""
    return LABELS.get(model._meta.label_lower, str(model._meta.verbose_name_plural))


class AuditedSite(admin.AdminSite):
    """Mixes `Audited` into whatever is registered, other packages' models as well."""

    site_title = site_header = "rtmpweb"
    index_title = "All forms and records"

    def has_permission(self, request: HttpRequest) -> bool:
        return super().has_permission(request) or bool(SETS_UP & user_abilities(request.user))

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """By GROUPS; of one application as Django has it."""
        apps = super().get_app_list(request, app_label)
        tables = {each["model"]._meta.label_lower: each for app in apps for each in app["models"]}
        for each in tables.values():
            each["name"] = capfirst(label_of(each["model"]))
        if app_label is not None:
            return apps
        grouped = {name: [tables.pop(label) for label in labels if label in tables] for name, labels in GROUPS.items()}
        grouped["More"] = [each for label, each in tables.items() if label not in HIDDEN]
        url = reverse("admin:index", current_app=self.name)
        return [
            {"name": name, "app_label": f"group-{number}", "app_url": url, "has_module_perms": True, "models": models}
            for number, (name, models) in enumerate(grouped.items())
            if models
        ]

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        base = admin_class or admin.ModelAdmin
        if not issubclass(base, AuditedMixin):
            make: Any = type(base)
            base = make(base.__name__, (AuditedMixin, base), {"__module__": base.__module__})
        super().register(model_or_iterable, base, **options)


def nobody(admin: object, request: HttpRequest, obj: Any = None) -> bool:
    """Who may, as an admin's method says."""
    return False


class ReadOnlyMixin(MixinBase):
    """History and the present: to look at. What the server writes, nobody edits."""

    has_add_permission = has_change_permission = has_delete_permission = nobody


class StateFilter(admin.SimpleListFilter):
    """By what `states` has: the value in the URL, its label, and which rows have the state."""

    title = parameter_name = "state"
    states: ClassVar[Mapping[str, tuple[str, Callable[["QuerySet[Any]"], "QuerySet[Any]"]]]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, label) for value, (label, _) in self.states.items()]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        found = self.states.get(self.value() or "")
        return found[1](queryset) if found else queryset


class BoundedPaginator(Paginator[Any]):
    """Counts `most` rows, and has the pages of as many."""

    most = MAX_COUNT

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return count_up_to(rows, self.most)

    @property
    def is_cut(self) -> bool:
        """Whether there may be more."""
        return self.count >= self.most


class LongList(MixinBase):
    """Mixed into a model's admin: the list counts no further than its pages go, gathers no dates, and offers no counts
    of what filters would find.
    """

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    newest = "-pk"
    """The order, by an index, in which the latest rows come first."""


class RecentValues(admin.AllValuesFieldListFilter):
    """The values that a field has in the latest rows, of a `LongList`."""

    most = MAX_COUNT

    def __init__(
        self, field: Any, request: HttpRequest, params: Any, model: Any, model_admin: Any, field_path: str
    ) -> None:
        super().__init__(field, request, params, model, model_admin, field_path)
        latest = model_admin.get_queryset(request).order_by(model_admin.newest).values_list(field_path, flat=True)
        found: Any = sorted(set(latest[: self.most]))
        self.lookup_choices = found
