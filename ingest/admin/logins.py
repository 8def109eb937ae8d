"""Encoders' log-ins in the admin, and what they share with stream keys: a secret is shown once, and revoked for
good."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from ingest.admin.forms import EncoderLoginForm
from ingest.admin_site import AnyAdmin, MixinBase
from ingest.models import EncoderLogin
from ingest.services import actions as services_actions
from ingest.services import encoder_login
from ingest.services.audit import actor_of


class RevocableMixin(MixinBase):
    revoke_one: ClassVar[Callable[..., None]]
    fixed: tuple[str, ...] = ("stream",)
    """What can't be changed once it is made, besides `readonly_fields`."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*self.readonly_fields, *self.fixed) if obj is not None else ()

    def shown_once(self, request: HttpRequest, title: str, **context: Any) -> HttpResponse:
        """The page that has the secret; browsers don't keep it."""
        name = self.opts.model_name
        context |= {"title": title, "opts": self.opts, "list_url": reverse(f"admin:ingest_{name}_changelist")}
        context = self.admin_site.each_context(request) | context
        response = TemplateResponse(request, f"admin/ingest/{name}/created.html", context)
        response["Cache-Control"] = "no-store"
        return response

    @admin.action(description="Revoke: end their sessions now", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: "QuerySet[Any]") -> None:
        for row in queryset:
            self.revoke_one(actor_of(request), row)
            self.log_change(request, row, "Revoked.")
        messages.success(request, f"Revoked {queryset.count()}. Their sessions end within 2 s.")


@admin.register(EncoderLogin)
class EncoderLoginAdmin(RevocableMixin, AnyAdmin):
    form = EncoderLoginForm
    list_display = ("user", "stream", "label", "state", "expires_at", "last_used_at", "created_at")
    list_filter = ("stream__application", "enabled", "expires_at", "last_used_at")
    list_select_related = ("stream__application",)
    search_fields = ("user", "label", "stream__name", "stream__application__name")
    autocomplete_fields = ("stream",)
    readonly_fields = ("state", "created_at", "last_used_at", "revoked_at")
    fixed = ("stream", "user")
    actions = ("revoke",)
    revoke_one = staticmethod(services_actions.revoke_login)

    @admin.display
    def state(self, login: EncoderLogin) -> str:
        return encoder_login.state(login=login)

    def get_fields(self, request: HttpRequest, obj: EncoderLogin | None = None) -> Any:
        rights = ("stream", "user", "password", "label", "enabled", "expires_at")
        return rights if obj is None else (*rights, *self.readonly_fields)

    def save_model(self, request: HttpRequest, obj: EncoderLogin, form: Any, change: bool) -> None:
        password = form.cleaned_data.get("password") or ""
        if change:
            super().save_model(request, obj, form, change)
            if password:
                encoder_login.set_password(login=obj, password=password)
            return
        rights = {name: form.cleaned_data[name] for name in EncoderLoginForm.Meta.fields}
        made = encoder_login.create(**rights, password=password)
        obj.pk = made.login.pk
        if not password:
            request.new_login = made  # type: ignore[attr-defined]

    def response_add(
        self, request: HttpRequest, obj: EncoderLogin, post_url_continue: str | None = None
    ) -> HttpResponse:
        made: encoder_login.NewPassword | None = getattr(request, "new_login", None)
        if made is None:
            return super().response_add(request, obj, post_url_continue)
        return self.shown_once(request, "Encoder log-in created", made=made.as_dict())
