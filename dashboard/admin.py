"""API tokens in the admin: made there, their secret shown once, then only revoked."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from dashboard import (
    tokens,
    useradmin,  # noqa: F401 - registers users and groups.
)
from dashboard.models import ApiToken
from dashboard.views.access import request_abilities
from ingest.acting import actor_of
from ingest.roles import Ability
from ingest.services import audit

if TYPE_CHECKING:
    Base = admin.ModelAdmin[ApiToken]
else:
    Base = admin.ModelAdmin  # Generic for the type checker only.


@admin.register(ApiToken)
class ApiTokenAdmin(Base):
    list_display = ("name", "role", "start", "created_at", "created_by", "last_used_at", "expires_at", "revoked_at")
    list_filter = ("role", ("revoked_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "prefix")
    fields = ("name", "role", "expires_at")
    actions = ("revoke",)

    @admin.display(description="Begins with")
    def start(self, token: ApiToken) -> str:
        return f"{token.prefix}…"

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        assert isinstance(request.user, User)  # noqa: S101  # The admin lets no other in.
        made = tokens.create(name=obj.name, role=obj.role, created_by=request.user, expires_at=obj.expires_at)
        obj.pk = made.token.pk
        obj._state.adding = False
        request._new_secret = made.secret  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None) -> HttpResponse:
        # Rendered into this one answer, not stored: a message in the session or a cookie would outlive it.
        context = self.admin_site.each_context(request) | {
            "title": f"API token {obj.name}",
            "token": obj,
            "secret": request._new_secret,  # type: ignore[attr-defined]
            "opts": self.opts,
        }
        response = HttpResponse(render_to_string("admin/dashboard/apitoken/created.html", context, request))
        response["Cache-Control"] = "no-store"
        return response

    @admin.action(description="Revoke the chosen tokens")
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        for token in queryset:
            tokens.revoke(token=token)
            audit.record(actor_of(request), "api_token.revoke", token.name)
        self.message_user(request, f"{len(queryset)} revoked.", messages.SUCCESS)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return Ability.MANAGE_TOKENS in request_abilities(request)

    def has_view_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return self.has_module_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_module_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        """A token is never changed, only revoked, which is an action of the list."""
        return obj is None and self.has_module_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False
