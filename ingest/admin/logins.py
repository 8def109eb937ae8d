"""The admin of encoders' log-ins. A password that was made up is on the page that answers its making, nowhere else."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from ingest.admin.forms import EncoderLoginForm
from ingest.models import EncoderLogin
from ingest.services import actions as services_actions
from ingest.services import encoder_login
from ingest.services.audit import actor_of

if TYPE_CHECKING:
    EncoderLoginBase = admin.ModelAdmin[EncoderLogin]
else:
    EncoderLoginBase = admin.ModelAdmin


@admin.register(EncoderLogin)
class EncoderLoginAdmin(EncoderLoginBase):
    form = EncoderLoginForm
    list_display = ("user", "stream", "label", "state", "expires_at", "last_used_at", "created_at")
    list_filter = ("stream__application", "enabled", "expires_at", "last_used_at")
    list_select_related = ("stream__application",)
    search_fields = ("user", "label", "stream__name", "stream__application__name")
    autocomplete_fields = ("stream",)
    readonly_fields = ("state", "created_at", "last_used_at", "revoked_at")
    actions = ("revoke",)

    @admin.display
    def state(self, login: EncoderLogin) -> str:
        return encoder_login.state(login=login)

    def get_fields(self, request: HttpRequest, obj: EncoderLogin | None = None) -> Any:
        rights = ("stream", "user", "password", "label", "enabled", "expires_at")
        return rights if obj is None else (*rights, *self.readonly_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: EncoderLogin | None = None) -> Any:
        return (*self.readonly_fields, "stream", "user") if obj is not None else ()

    def save_model(self, request: HttpRequest, obj: EncoderLogin, form: Any, change: bool) -> None:
        password = form.cleaned_data.get("password") or ""
        if change:
            super().save_model(request, obj, form, change)
            if password:
                encoder_login.set_password(login=obj, password=password)
            return
        made = encoder_login.create(
            stream=obj.stream,
            user=obj.user,
            password=password,
            label=obj.label,
            expires_at=obj.expires_at,
            enabled=obj.enabled,
        )
        obj.pk = made.login.pk
        if not password:
            request.new_login = made  # type: ignore[attr-defined]

    def response_add(
        self, request: HttpRequest, obj: EncoderLogin, post_url_continue: str | None = None
    ) -> HttpResponse:
        made: encoder_login.NewPassword | None = getattr(request, "new_login", None)
        if made is None:
            return super().response_add(request, obj, post_url_continue)
        context = self.admin_site.each_context(request) | {
            "title": "Encoder log-in created",
            "opts": self.opts,
            "made": made.as_dict(),
            "list_url": reverse("admin:ingest_encoderlogin_changelist"),
        }
        response = TemplateResponse(request, "admin/ingest/encoderlogin/created.html", context)
        response["Cache-Control"] = "no-store"
        return response

    @admin.action(description="Revoke: end their sessions now", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: "QuerySet[EncoderLogin]") -> None:
        for login in queryset:
            services_actions.revoke_login(actor_of(request), login)
            self.log_change(request, login, "Revoked.")
        messages.success(request, f"Revoked {queryset.count()}. Their sessions end within 2 s.")
