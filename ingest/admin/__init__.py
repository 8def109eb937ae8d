"""The operators' admin: set-up of applications, streams and keys; history to read.

A key's secret is on the page that answers its making or rotation, and nowhere else: that page isn't kept by browsers.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from ingest.admin import logins, recordings, relays  # noqa: F401 - registers what they are named for.
from ingest.admin.forms import ExpectedTimeInline, HealthOverrideInline, StreamForm, StreamKeyForm
from ingest.admin.logins import RevocableMixin
from ingest.admin.removal import RemovalMixin
from ingest.admin_site import AnyAdmin, LongList, ReadOnlyMixin, RecentValues, StateFilter
from ingest.models import Application, Attempt, Ban, Lease, Node, Session, StatusEvent, Stream, StreamKey
from ingest.services import actions as services_actions
from ingest.services import bans, keys, media_urls, nodes, play_policy
from ingest.services.audit import actor_of
from ingest.services.removal import delete_application, delete_stream, of_applications, of_streams
from ingest.services.roles import CAN_DRAIN, CAN_KICK, CAN_LIFT_BANS

ROTATION_GRACE = timedelta(hours=24)
DRAIN_GRACE_S = 60


@admin.register(Application)
class ApplicationAdmin(RemovalMixin, AnyAdmin):
    plan, remove = staticmethod(of_applications), staticmethod(delete_application)
    list_display = ("name", "enabled", "publish_policy", "play_policy", "record")
    list_filter = ("enabled", "publish_policy", "play_policy")
    search_fields = ("name",)

    def save_model(self, request: HttpRequest, obj: Application, form: Any, change: bool) -> None:
        former = Application.objects.filter(pk=obj.pk).first()
        super().save_model(request, obj, form, change)
        if former is not None:
            play_policy.apply_of_application(obj, former.play_policy)


@admin.register(Stream)
class StreamAdmin(RemovalMixin, AnyAdmin):
    plan, remove = staticmethod(of_streams), staticmethod(delete_stream)
    form = StreamForm
    list_display = ("__str__", "owner", "enabled", "play_policy", "target_kbps", "takeover")
    list_filter = ("application", "enabled", "play_policy", "takeover", ("owner", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("application", "owner")
    search_fields = ("name", "application__name")
    autocomplete_fields = ("application",)
    raw_id_fields = ("owner",)
    inlines = (ExpectedTimeInline, HealthOverrideInline)

    def save_model(self, request: HttpRequest, obj: Stream, form: Any, change: bool) -> None:
        former = Stream.objects.select_related("application").filter(pk=obj.pk).first()
        super().save_model(request, obj, form, change)
        if former is not None:
            play_policy.apply(obj, former.effective_play_policy)


def _keys_that_are(queryset: "QuerySet[StreamKey]", *, state: str) -> "QuerySet[StreamKey]":
    now = timezone.now()
    return queryset.filter(pk__in=[key.pk for key in queryset if keys.state(key=key, now=now) == state])


class KeyStateFilter(StateFilter):
    states = {
        state: (state.title(), partial(_keys_that_are, state=state))
        for state in ("active", "expired", "disabled", "revoked")
    }


@admin.register(StreamKey)
class StreamKeyAdmin(RevocableMixin, AnyAdmin):
    form = StreamKeyForm
    list_display = ("__str__", "stream", "starts_with", "state", "expires_at", "limit", "last_used", "created_at")
    list_filter = (
        KeyStateFilter,
        "stream__application",
        ("stream__owner", admin.RelatedOnlyFieldListFilter),
        "over_limit",
        "test_only",
        "expires_at",
        "last_used_at",
    )
    list_select_related = ("stream__application",)
    search_fields = ("label", "prefix", "stream__name", "stream__application__name")
    autocomplete_fields = ("stream",)
    readonly_fields = ("starts_with", "state", "created_at", "last_used", "revoked_at", "grace_until")
    actions = ("revoke", "rotate_with_grace", "rotate_now")
    revoke_one = staticmethod(services_actions.revoke_key)

    @admin.display(description="starts with")
    def starts_with(self, key: StreamKey) -> str:
        return f"{key.prefix}…" if key.prefix else "—"

    def get_queryset(self, request: HttpRequest) -> "QuerySet[StreamKey]":
        live = Session.objects.filter(key=OuterRef("pk"), ended_at__isnull=True)
        found: QuerySet[StreamKey] = super().get_queryset(request).annotate(is_live=Exists(live))
        return found

    @admin.display(description="bitrate limit", ordering="max_kbps")
    def limit(self, key: StreamKey) -> str:
        return f"{key.max_kbps} kbit/s, {key.over_limit}" if key.max_kbps else "—"

    @admin.display(ordering="last_used_at")
    def last_used(self, key: StreamKey) -> Any:
        return "now: it is live" if getattr(key, "is_live", False) else key.last_used_at or "—"

    @admin.display
    def state(self, key: StreamKey) -> str:
        found = keys.state(key=key)
        return f"active until\n{key.grace_until:%Y-%m-%d %H:%M}Z" if found == "active" and key.grace_until else found

    def get_fields(self, request: HttpRequest, obj: StreamKey | None = None) -> Any:
        return (*StreamKeyForm.Meta.fields, *(("existing_key",) if obj is None else self.readonly_fields))

    def save_model(self, request: HttpRequest, obj: StreamKey, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            keys.bind_links(key=obj)
            return
        rights = {name: form.cleaned_data[name] for name in StreamKeyForm.Meta.fields}
        new_key = keys.create(**rights, secret=form.cleaned_data.get("existing_key") or None)
        obj.pk, obj.digest, obj.prefix = new_key.key.pk, new_key.key.digest, new_key.key.prefix
        request.new_key = new_key  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: StreamKey, post_url_continue: str | None = None) -> HttpResponse:
        new_key: keys.NewKey = request.new_key  # type: ignore[attr-defined]
        return self._shown(request, new_key, "Stream key created")

    def _shown(self, request: HttpRequest, new_key: keys.NewKey, title: str) -> HttpResponse:
        paste = media_urls.strings(stream=new_key.key.stream, secret=new_key.secret, page=media_urls.page_host(request))
        return self.shown_once(request, title, key=new_key.key, paste=paste)

    @admin.action(description="Rotate one: a new key, the old one works for 24 hours", permissions=["add"])
    def rotate_with_grace(self, request: HttpRequest, queryset: "QuerySet[StreamKey]") -> HttpResponse | None:
        return self._rotate(request, queryset, ROTATION_GRACE)

    @admin.action(description="Rotate one: a new key, the old one is revoked now", permissions=["add"])
    def rotate_now(self, request: HttpRequest, queryset: "QuerySet[StreamKey]") -> HttpResponse | None:
        return self._rotate(request, queryset, timedelta(0))

    def _rotate(self, request: HttpRequest, queryset: "QuerySet[StreamKey]", grace: timedelta) -> HttpResponse | None:
        if queryset.count() != 1:
            messages.error(request, "Select one key: its new secret is shown once, on the next page.")
            return None
        key = queryset.select_related("stream__application").get()
        try:
            made = services_actions.rotate_key(actor_of(request), key, grace=grace)
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
            return None
        self.log_change(request, key, "Rotated.")
        self.log_addition(request, made.key, "Made by rotation.")
        return self._shown(request, made, "Stream key rotated")


class OpenFilter(StateFilter):
    title, parameter_name = "state", "now"
    states = {
        "open": ("On air", lambda sessions: sessions.filter(ended_at__isnull=True)),
        "ended": ("Ended", lambda sessions: sessions.filter(ended_at__isnull=False)),
    }


@admin.register(Session)
class SessionAdmin(LongList, ReadOnlyMixin, AnyAdmin):
    list_display = ("started_at", "kind", "app", "name", "address", "node", "ended_at", "end_reason")
    list_filter = (OpenFilter, "kind", "end_reason", ("app", RecentValues), "node", "started_at")
    list_select_related = ("node",)
    search_fields = ("=id", "name", "address", "encoder")
    newest = "-started_at"
    exclude = ("channel", "stop_requested", "stop_note")
    readonly_fields = ("its_events",)
    actions = ("end_now",)

    @admin.display(description="events")
    def its_events(self, session: Session) -> str:
        url = reverse("admin:ingest_statusevent_changelist")
        return format_html('<a href="{}?session__id__exact={}">{} events</a>', url, session.pk, session.events.count())

    def has_kick_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(CAN_KICK)

    @admin.action(description="End the selected live sessions", permissions=["kick"])
    def end_now(self, request: HttpRequest, queryset: "QuerySet[Session]") -> None:
        asked = sum(services_actions.kick(actor_of(request), session) for session in queryset.select_related("stream"))
        messages.success(request, f"Asked for the end of {asked}: within 2 s.")


@admin.register(StatusEvent)
class StatusEventAdmin(LongList, ReadOnlyMixin, AnyAdmin):
    list_display = ("at", "session", "sequence", "kind", "level", "code", "description")
    list_filter = (("kind", RecentValues), ("level", RecentValues), "at")
    list_select_related = ("session",)
    search_fields = ("=session__id", "session__name", "code")
    ordering = ("-at",)


@admin.register(Attempt)
class AttemptAdmin(LongList, ReadOnlyMixin, AnyAdmin):
    list_display = ("at", "count", "last_at", "action", "app", "name", "address", "reason", "code", "description")
    list_filter = ("action", ("reason", RecentValues), ("app", RecentValues), ("node", RecentValues), "at")
    search_fields = ("address", "name", "encoder")


def _active_bans() -> "QuerySet[Ban, Any]":
    return bans.active(now=timezone.now()).values("pk")


class BanStateFilter(StateFilter):
    states = {
        "active": ("Active", lambda those: those.filter(pk__in=_active_bans())),
        "over": ("Ended or lifted", lambda those: those.exclude(pk__in=_active_bans())),
    }


@admin.register(Ban)
class BanAdmin(LongList, ReadOnlyMixin, AnyAdmin):
    list_display = ("address", "state", "at", "until", "guesses", "node", "lifted_at", "lifted_by")
    list_filter = (BanStateFilter, ("node", RecentValues), "at")
    list_select_related = ("lifted_by",)
    search_fields = ("address",)
    actions = ("lift",)

    @admin.display
    def state(self, ban: Ban) -> str:
        if ban.lifted_at is not None:
            return "lifted"
        return "active" if ban.until > timezone.now() else "over"

    def has_lift_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(CAN_LIFT_BANS)

    @admin.action(description="Lift the bans of the selected addresses", permissions=["lift"])
    def lift(self, request: HttpRequest, queryset: "QuerySet[Ban]") -> None:
        addresses = sorted(set(queryset.values_list("address", flat=True)))
        lifted = services_actions.lift_bans(actor_of(request), addresses)
        for ban in queryset:
            self.log_change(request, ban, "Lifted.")
        messages.success(request, f"Lifted {lifted}. {', '.join(addresses)}: can connect again within 2 s.")


@admin.register(Node)
class NodeAdmin(ReadOnlyMixin, AnyAdmin):
    list_display = ("name", "state", "address", "started_at", "seen_at", "drain_requested_at", "drain_grace_s")
    list_filter = ("state",)
    actions = ("drain", "resume", "forget")

    def has_drain_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(CAN_DRAIN)

    @admin.action(description=f"Drain: nothing new; end what is left after {DRAIN_GRACE_S} s", permissions=["drain"])
    def drain(self, request: HttpRequest, queryset: "QuerySet[Node]") -> None:
        self._ask(
            request,
            queryset,
            partial(services_actions.drain_node, grace_s=DRAIN_GRACE_S),
            f"is drained: it takes nothing new, and what is live there ends after {DRAIN_GRACE_S} s.",
        )

    @admin.action(description="Resume: take connections again", permissions=["drain"])
    def resume(self, request: HttpRequest, queryset: "QuerySet[Node]") -> None:
        self._ask(request, queryset, services_actions.resume_node, "takes connections again within 2 s.")

    @admin.action(description="Forget: it is down, and gone for good", permissions=["drain"])
    def forget(self, request: HttpRequest, queryset: "QuerySet[Node]") -> None:
        self._ask(request, queryset, services_actions.forget_node, "is no longer expected.")

    def _ask(self, request: HttpRequest, queryset: "QuerySet[Node]", action: Callable[..., Node], message: str) -> None:
        for node in queryset:
            try:
                action(actor_of(request), node.name)
            except nodes.NodeError as error:
                messages.error(request, str(error))
                continue
            self.log_change(request, node, f"Node {node.name} {message}")
            messages.success(request, f"Node {node.name} {message}")


@admin.register(Lease)
class LeaseAdmin(ReadOnlyMixin, AnyAdmin):
    list_display = ("stream", "session", "node", "fencing", "expires_at")
    list_select_related = ("stream__application", "session", "node")
    list_filter = (("node", admin.RelatedOnlyFieldListFilter), ("session", admin.EmptyFieldListFilter))
