"""What the admins of stream keys and log-ins share: a secret is shown once, and revoked for good."""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from ingest.admin_site import MixinBase
from ingest.models import EncoderLogin, StreamKey
from ingest.services import actions as services_actions
from ingest.services.audit import actor_of

REVOKE: Mapping[type[Model], Callable[..., None]] = {
    StreamKey: services_actions.revoke_key,
    EncoderLogin: services_actions.revoke_login,
}


class RevocableMixin(MixinBase):
    model: Any

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
            REVOKE[self.model](actor_of(request), row)
            self.log_change(request, row, "Revoked.")
        messages.success(request, f"Revoked {queryset.count()}. Their sessions end within 2 s.")
