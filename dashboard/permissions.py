"""Who may do what: one table, asked by views, by the API and by WebSocket consumers alike.

A user has the roles of the Django groups that bear their names (migration 0002 of ingest makes them); a superuser has
every ability. An API token has one role. Somebody without a role may nothing.
"""

from enum import StrEnum

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User

from ingest.roles import ADMIN, ANALYST, KEY_MANAGER, OPERATOR, VIEWER


class Ability(StrEnum):
    """Something that the dashboard asks permission for."""

    VIEW = "view"  # Every page, list and live update.
    KICK = "kick"  # End a publisher's session.
    NOTE = "note"  # Acknowledge issues, write notes, mute a stream's alerts.
    DRAIN = "drain"  # Have a media node take nothing new, or go on.
    LIFT_BANS = "lift_bans"  # Hear an address again that was banned for its guesses.
    SHARE = "share"  # Make play tokens, and the URLs that bear them.
    MANAGE_KEYS = "manage_keys"  # Make, rotate and revoke stream keys.
    MANAGE_STREAMS = "manage_streams"  # Disable and delete streams and applications.
    RUN_ANALYTICS = "run_analytics"  # Start a Spark job.
    DELETE_RECORDINGS = "delete_recordings"  # For good, with their files.
    SEE_AUDIT = "see_audit"  # Who did what.
    MANAGE_ALERTS = "manage_alerts"  # Rules of alerts, webhooks and their deliveries.
    MANAGE_TOKENS = "manage_tokens"  # Make and revoke API tokens.


ALL = frozenset(Ability)

ROLES: dict[str, frozenset[Ability]] = {
    VIEWER: frozenset({Ability.VIEW}),
    OPERATOR: frozenset(
        {Ability.VIEW, Ability.KICK, Ability.NOTE, Ability.LIFT_BANS, Ability.SHARE, Ability.DELETE_RECORDINGS}
    ),
    KEY_MANAGER: frozenset({Ability.VIEW, Ability.LIFT_BANS, Ability.SHARE, Ability.MANAGE_KEYS}),
    ANALYST: frozenset({Ability.VIEW, Ability.RUN_ANALYTICS}),
    ADMIN: ALL,
}

NONE: frozenset[Ability] = frozenset()


def role_abilities(role: str) -> frozenset[Ability]:
    """What a role may do; nothing for a name that is no role."""
    return ROLES.get(role, NONE)


def user_abilities(user: AbstractBaseUser | AnonymousUser) -> frozenset[Ability]:
    """What a user may do: the union of the user's roles. One query."""
    if not isinstance(user, User) or not user.is_active:
        return NONE
    if user.is_superuser:
        return ALL
    names = user.groups.filter(name__in=ROLES).values_list("name", flat=True)
    return NONE.union(*(ROLES[name] for name in names))
