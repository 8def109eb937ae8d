"""Who may do what: one table of roles, for pages, the API, WebSockets and the admin alike.

A role is a Django group of its name, which a migration makes. What a role opens on pages and in the API are abilities;
in the admin they are Django's permissions. A superuser has all of both, an API token has one role's abilities, and
somebody without a role has none.

An application of the project that brings permissions of its own adds them to the roles with `grant` in a migration.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User

VIEWER, OPERATOR, KEY_MANAGER, ANALYST, ADMIN = "viewer", "operator", "key manager", "analyst", "admin"
ROLES = (VIEWER, OPERATOR, KEY_MANAGER, ANALYST, ADMIN)

CAN_KICK = "ingest.kick_session"
CAN_LIFT_BANS = "ingest.change_ban"
CAN_DRAIN = "ingest.change_node"


class Ability(StrEnum):
    """Something that the dashboard asks permission for."""

    VIEW = "view"  # Every page, list and live update.
    KICK = "kick"  # End a publisher's session.
    NOTE = "note"  # Acknowledge issues, write notes, mute a stream's alerts.
    PUSH = "push"  # Start and stop pushes of a live stream to other servers.
    DRAIN = "drain"  # Have a media node take nothing new, or go on.
    LIFT_BANS = "lift_bans"  # Hear an address again that was banned for its guesses.
    SHARE = "share"  # Make play tokens, and the URLs that bear them.
    MANAGE_KEYS = "manage_keys"  # Make, rotate and revoke stream keys; set up pushes and pulls.
    MANAGE_STREAMS = "manage_streams"  # Make applications; disable and delete them and streams.
    RUN_ANALYTICS = "run_analytics"  # Start a Spark job.
    DELETE_RECORDINGS = "delete_recordings"  # For good, with their files.
    SEE_AUDIT = "see_audit"  # Who did what.
    MANAGE_ALERTS = "manage_alerts"  # Rules of alerts, webhooks and their deliveries.
    MANAGE_TOKENS = "manage_tokens"  # Make and revoke API tokens.


Permission = tuple[str, str, str]
"""Application label, model, codename."""


def _permissions(model: str, *verbs: str, app: str = "ingest") -> tuple[Permission, ...]:
    return tuple((app, model, f"{verb}_{model}") for verb in verbs)


class Grant(NamedTuple):
    roles: Sequence[str]
    abilities: Sequence[Ability]
    permissions: Sequence[Permission] = ()


ALL_VERBS = ("view", "add", "change", "delete")
SEEN = ("application", "stream", "node", "session", "lease", "statusevent", "attempt", "ban", "recording")
"""What everyone with a role may look at: neither keys, nor what clients share, which may be personal."""

GRANTS = (
    Grant(ROLES, [Ability.VIEW], [each for model in SEEN for each in _permissions(model, "view")]),
    Grant((OPERATOR, ADMIN), [Ability.KICK, Ability.NOTE], [("ingest", "session", "kick_session")]),
    Grant((OPERATOR, ADMIN), [Ability.DELETE_RECORDINGS], _permissions("recording", "change", "delete")),
    Grant((OPERATOR, ADMIN), [], _permissions("sharedobject", "view")),
    Grant((OPERATOR, KEY_MANAGER, ADMIN), [Ability.PUSH]),
    Grant((OPERATOR, KEY_MANAGER, ADMIN), [Ability.LIFT_BANS, Ability.SHARE], _permissions("ban", "change")),
    Grant(
        (KEY_MANAGER, ADMIN),
        [Ability.MANAGE_KEYS],
        [
            *_permissions("streamkey", *ALL_VERBS),
            *_permissions("encoderlogin", *ALL_VERBS),
            *_permissions("pushtarget", *ALL_VERBS),
            *_permissions("pullsource", *ALL_VERBS),
            *_permissions("stream", "add", "change"),
        ],
    ),
    Grant((ANALYST, ADMIN), [Ability.RUN_ANALYTICS]),
    Grant(
        (ADMIN,),
        [Ability.DRAIN, Ability.MANAGE_STREAMS, Ability.SEE_AUDIT, Ability.MANAGE_ALERTS, Ability.MANAGE_TOKENS],
        [
            *_permissions("node", "change"),
            *_permissions("sharedobject", "delete"),
            *_permissions("application", *ALL_VERBS),
            *_permissions("stream", *ALL_VERBS),
            *_permissions("user", *ALL_VERBS, app="auth"),
            *_permissions("group", "view", app="auth"),
        ],
    ),
)
"""Nobody's role lets him change groups: whoever could change one would say himself what he may."""

NONE: frozenset[Ability] = frozenset()

ABILITIES: dict[str, frozenset[Ability]] = {
    role: NONE.union(*(grant.abilities for grant in GRANTS if role in grant.roles)) for role in ROLES
}
PERMISSIONS: dict[str, tuple[Permission, ...]] = {
    role: tuple(dict.fromkeys(each for grant in GRANTS if role in grant.roles for each in grant.permissions))
    for role in ROLES
}


def role_abilities(role: str) -> frozenset[Ability]:
    """What a role may do; nothing for a name that is no role."""
    return ABILITIES.get(role, NONE)


def user_abilities(user: AbstractBaseUser | AnonymousUser) -> frozenset[Ability]:
    """What a user may do: the union of the user's roles. One query."""
    if not isinstance(user, User) or not user.is_active:
        return NONE
    if user.is_superuser:
        return frozenset(Ability)
    names = user.groups.filter(name__in=ROLES).values_list("name", flat=True)
    return NONE.union(*(ABILITIES[name] for name in names))


NAMES = {"kick_session": "Can end a live session"}


def grant(apps: Any, permissions: Mapping[str, Sequence[Permission]]) -> None:
    """Gives each role its permissions; makes what is missing, takes nothing away. `apps`: a migration's registry. What
    is of a model that it does not have yet is left to the migration that makes that.

    The rows of the permissions are made as well, since Django makes them only after all migrations have run.
    """
    group_model = apps.get_model("auth", "Group")
    permission_model = apps.get_model("auth", "Permission")
    type_model = apps.get_model("contenttypes", "ContentType")
    for role, wanted in permissions.items():
        group, _ = group_model.objects.get_or_create(name=role)
        for app, model, codename in wanted:
            if model not in apps.all_models[app]:
                continue
            content_type, _ = type_model.objects.get_or_create(app_label=app, model=model)
            verb, _, noun = codename.partition("_")
            verbose = apps.get_model(app, model)._meta.verbose_name_raw
            permission, _ = permission_model.objects.get_or_create(
                content_type=content_type,
                codename=codename,
                defaults={"name": NAMES.get(codename, f"Can {verb} {verbose or noun}")},
            )
            group.permissions.add(permission)
