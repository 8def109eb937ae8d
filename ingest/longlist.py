"""Lists of the admin whose tables grow without end: a page of one costs the same however much history there is."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.utils.functional import cached_property

from ingest.services.counting import MOST, up_to

if TYPE_CHECKING:
    PaginatorBase = Paginator[Any]
    AdminBase = admin.ModelAdmin[Any]
else:
    PaginatorBase = Paginator
    AdminBase = object


class BoundedPaginator(PaginatorBase):
    """Counts `most` rows, and has the pages of as many."""

    most = MOST

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return up_to(rows, self.most)

    @property
    def is_cut(self) -> bool:
        """Whether there may be more."""
        return self.count >= self.most


class LongList(AdminBase):
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

    most = MOST

    def __init__(
        self, field: Any, request: HttpRequest, params: Any, model: Any, model_admin: Any, field_path: str
    ) -> None:
        super().__init__(field, request, params, model, model_admin, field_path)
        latest = model_admin.get_queryset(request).order_by(model_admin.newest).values_list(field_path, flat=True)
        found: Any = sorted(set(latest[: self.most]))
        self.lookup_choices = found
