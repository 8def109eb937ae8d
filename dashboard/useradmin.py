"""The admin of users and groups: nobody gives there what he lacks himself, or takes over an account that may do more.

A superuser may all. Somebody else with the permission for users, which the role admin has, makes, changes and deletes
those whose groups and permissions are among his own, and puts them into such groups. What groups may is for superusers
to say.
"""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from dashboard.views.access import request_abilities
from ingest.roles import ABILITIES

if TYPE_CHECKING:
    UserBase = UserAdmin[User]
else:
    UserBase = UserAdmin

SUPERUSERS_ONLY = ("is_superuser", "user_permissions")

admin.site.unregister([User, Group])


@admin.register(User)
class BoundedUserAdmin(UserBase):
    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        own = super().get_readonly_fields(request, obj)
        return own if request.user.is_superuser else (*own, *SUPERUSERS_ONLY)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """The page that sets a password asks this, too."""
        return super().has_change_permission(request, obj) and _may_no_more(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_no_more(request, obj)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "groups" and not request.user.is_superuser:
            kwargs["queryset"] = _groups_within(request)
        return super().formfield_for_manytomany(db_field, request, **kwargs)


@admin.register(Group)
class RoleAdmin(GroupAdmin):
    """A role is a group: who could change one would say himself what he may."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.is_superuser

    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return request.user.is_superuser

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return request.user.is_superuser


def _may_no_more(request: HttpRequest, account: User | None) -> bool:
    """Whether the account may nothing that who asks may not. One that is not active counts as if it were."""
    if account is None or request.user.is_superuser:
        return True
    return not (
        account.is_superuser
        or account.user_permissions.exclude(pk__in=_held(request)).exists()
        or account.groups.exclude(pk__in=_groups_within(request)).exists()
    )


def _groups_within(request: HttpRequest) -> "QuerySet[Group]":
    """Those all of whose permissions, and whose abilities as a role, who asks has himself."""
    more = Permission.objects.exclude(pk__in=_held(request))
    abilities = request_abilities(request)
    higher = [role for role, may in ABILITIES.items() if not may <= abilities]
    return Group.objects.exclude(permissions__in=more).exclude(name__in=higher).order_by("name")


def _held(request: HttpRequest) -> "QuerySet[Permission]":
    """By who asks: his own and those of his groups."""
    return Permission.objects.filter(Q(user__pk=request.user.pk) | Q(group__user__pk=request.user.pk))
