"""The admin of users, groups and API tokens: nobody gives there what he lacks himself, or takes over an account that
may do more.

A superuser may all. Somebody else with the permission for users, which the role admin has, makes, changes and deletes
those whose groups and permissions are among his own, and puts them into such groups. What groups may is for superusers
to say. Tokens are made here, their secret is shown once, then they are only revoked."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from dashboard import access
from dashboard.access import request_abilities
from dashboard.models import ApiToken
from ingest.services import audit
from ingest.services.audit import actor_of
from ingest.services.roles import ABILITIES, Ability

if TYPE_CHECKING:
    UserBase = UserAdmin[User]
    TokenBase = admin.ModelAdmin[ApiToken]
else:  # Generic for the type checker only.
    UserBase, TokenBase = UserAdmin, admin.ModelAdmin

SUPERUSERS_ONLY = ("is_superuser", "user_permissions")

admin.site.unregister([User, Group])


@admin.register(User)
class BoundedUserAdmin(UserBase):
    list_display = ("username", "roles", "email", "is_active", "last_login")
    list_filter = ("groups", "is_active", "is_superuser")
    add_fieldsets = (*UserAdmin.add_fieldsets, ("What the user may do", {"fields": ("groups",)}))

    def get_queryset(self, request: HttpRequest) -> "QuerySet[User]":
        return super().get_queryset(request).prefetch_related("groups")

    @admin.display
    def roles(self, account: User) -> str:
        names = ", ".join(sorted(group.name for group in account.groups.all()))
        return "superuser" if account.is_superuser else names or "no role"

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
        field = super().formfield_for_manytomany(db_field, request, **kwargs)
        if field is not None and db_field.name == "groups":
            field.label, field.help_text = "Roles", "Without a role the user can log in, and sees nothing."
        return field

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None and db_field.name == "is_staff":
            field.help_text = "Opens the forms under Settings to a user whose role does not: to see, mostly."
        return field


@admin.register(Group)
class RoleAdmin(GroupAdmin):
    """A role is a group: who could change one would say himself what he may."""

    def has_add_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return request.user.is_superuser

    has_change_permission = has_delete_permission = has_add_permission


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


@admin.register(ApiToken)
class ApiTokenAdmin(TokenBase):
    list_display = ("name", "role", "start", "created_at", "created_by", "last_used_at", "expires_at", "revoked_at")
    list_filter = ("role", ("revoked_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "prefix")
    fields = ("name", "role", "expires_at")
    actions = ("revoke",)

    @admin.display(description="Starts with")
    def start(self, token: ApiToken) -> str:
        return f"{token.prefix}…"

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        assert isinstance(request.user, User)  # noqa: S101  # The admin lets no other in.
        made = access.create_token(name=obj.name, role=obj.role, created_by=request.user, expires_at=obj.expires_at)
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
            access.revoke_token(token=token)
            audit.record(actor_of(request), "api_token.revoke", token.name)
        self.message_user(request, f"{len(queryset)} revoked.", messages.SUCCESS)

    def has_module_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return Ability.MANAGE_TOKENS in request_abilities(request)

    has_view_permission = has_add_permission = has_module_permission

    def has_change_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        """A token is never changed, only revoked, which is an action of the list."""
        return obj is None and self.has_module_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False
