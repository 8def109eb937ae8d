"""Deleting streams and applications in the admin: what goes with them is said before, in figures, and what stays."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect

from ingest.admin_site import MixinBase
from ingest.services import removal
from ingest.services.audit import actor_of
from ingest.services.removal import InTheWay, Removal

DO_FIRST = "Disable it, or kick its encoder, then delete it."


class RemovalMixin(MixinBase):
    """Mixed into the admin of either. Whoever may delete it may delete what belongs to it: no further permission is
    asked for. Nothing that is live is deleted here.
    """

    model: Any
    plan: ClassVar[Callable[..., Removal]]
    remove: ClassVar[Callable[..., Removal]]
    delete_confirmation_template: ClassVar[Any] = "admin/ingest/removal/one.html"
    delete_selected_confirmation_template: ClassVar[Any] = "admin/ingest/removal/selected.html"
    records_itself = frozenset({"delete"})

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """What the page lists, its summary, permissions that are lacking, and what stands in the way."""
        rows = list(objs)
        found = self.plan(self.model.objects.filter(pk__in=[row.pk for row in rows]))
        request.removal = found  # type: ignore[attr-defined]  # For the page's template.
        summary = {str(self.model._meta.verbose_name_plural): len(rows)}
        summary |= {str(part.model._meta.verbose_name_plural): part.count for part in found.goes if part.count}
        why = removal.in_the_way(str(rows[0]) if len(rows) == 1 else "One of these, or more,", found)
        return [str(row) for row in rows], summary, set(), [f"{why} {DO_FIRST}"] if why else []

    @method_decorator(csrf_protect)
    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Not in one transaction, as Django's is: what goes on there has to be over first."""
        return self._delete_view(request, object_id, extra_context)  # type: ignore[attr-defined, no-any-return]

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """Once it is deleted: see `delete_model`."""

    def message_user(self, request: HttpRequest, message: Any, level: int | str = messages.INFO, *args: Any) -> None:
        if not (level == messages.SUCCESS and getattr(request, "in_the_way", False)):
            super().message_user(request, message, level, *args)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        try:
            self.remove(actor_of(request), obj)
        except InTheWay as problem:
            request.in_the_way = True  # type: ignore[attr-defined]  # So nobody says that it was deleted.
            messages.error(request, str(problem))
        else:
            super().log_deletions(request, [obj])  # type: ignore[arg-type]

    def delete_queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> None:
        for row in queryset:
            self.delete_model(request, row)
