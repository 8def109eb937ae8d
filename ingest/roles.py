"""The roles: groups that a migration makes, and what each may do.

An application of the project that brings its own permissions adds them to the roles with `grant` in a migration of its
own. `grant` makes the rows of the permissions as well, since Django makes them only after all migrations have run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

VIEWER, OPERATOR, KEY_MANAGER, ANALYST, ADMIN = "viewer", "operator", "key manager", "analyst", "admin"
ROLES = (VIEWER, OPERATOR, KEY_MANAGER, ANALYST, ADMIN)

CAN_KICK = "ingest.kick_session"
CAN_LIFT_BANS = "ingest.change_ban"
CAN_DRAIN = "ingest.change_node"

SEEN = ("application", "stream", "node", "session", "lease", "statusevent", "attempt")
"""What everyone with a role may look at. Keys are not among it."""

VIEW = tuple(("ingest", model, f"view_{model}") for model in SEEN)
KICK = (("ingest", "session", "kick_session"),)
KEYS = tuple(("ingest", "streamkey", f"{act}_streamkey") for act in ("view", "add", "change", "delete"))
STREAMS = tuple(("ingest", "stream", f"{act}_stream") for act in ("add", "change"))
SETUP = (
    *(
        (app, model, f"{act}_{model}")
        for app, model in (("ingest", "application"), ("ingest", "stream"), ("auth", "user"))
        for act in ("view", "add", "change", "delete")
    ),
    ("auth", "group", "view_group"),
)

Permission = tuple[str, str, str]
"""Application label, model, codename."""

PERMISSIONS: dict[str, Sequence[Permission]] = {
    VIEWER: VIEW,
    OPERATOR: VIEW + KICK,
    KEY_MANAGER: VIEW + KEYS + STREAMS,
    ANALYST: VIEW,
    ADMIN: tuple(dict.fromkeys(VIEW + KICK + KEYS + STREAMS + SETUP)),
}

SEES_BANS = (("ingest", "ban", "view_ban"),)
LIFTS_BANS = (*SEES_BANS, ("ingest", "ban", "change_ban"))
DRAINS = (("ingest", "node", "change_node"),)
BANS_AND_DRAINS: dict[str, Sequence[Permission]] = {
    VIEWER: SEES_BANS,
    OPERATOR: LIFTS_BANS,
    KEY_MANAGER: LIFTS_BANS,
    ANALYST: SEES_BANS,
    ADMIN: LIFTS_BANS + DRAINS,
}
"""What came after `PERMISSIONS` were granted."""

LOGINS = tuple(("ingest", "encoderlogin", f"{act}_encoderlogin") for act in ("view", "add", "change", "delete"))
ENCODER_LOGINS: dict[str, Sequence[Permission]] = {KEY_MANAGER: LOGINS, ADMIN: LOGINS}
"""Whoever manages keys manages these."""

SEES_OBJECTS = (("ingest", "sharedobject", "view_sharedobject"),)
DELETES_OBJECTS = (*SEES_OBJECTS, ("ingest", "sharedobject", "delete_sharedobject"))
SHARED_OBJECTS: dict[str, Sequence[Permission]] = {OPERATOR: SEES_OBJECTS, ADMIN: DELETES_OBJECTS}
"""What clients share may be personal: not for everyone with a role."""

SEES_RECORDINGS = (("ingest", "recording", "view_recording"),)
DELETES_RECORDINGS = tuple(("ingest", "recording", f"{act}_recording") for act in ("view", "change", "delete"))
RECORDINGS: dict[str, Sequence[Permission]] = {
    VIEWER: SEES_RECORDINGS,
    OPERATOR: DELETES_RECORDINGS,
    KEY_MANAGER: SEES_RECORDINGS,
    ANALYST: SEES_RECORDINGS,
    ADMIN: DELETES_RECORDINGS,
}

CHANGES_GROUPS = tuple(("auth", "group", f"{act}_group") for act in ("add", "change", "delete"))
FORMERLY: dict[str, Sequence[Permission]] = {ADMIN: CHANGES_GROUPS}
"""What was granted once: a role is a group, and whoever could change one would say himself what he may."""

NAMES = {"kick_session": "Can end a live session"}


def grant(apps: Any, permissions: Mapping[str, Sequence[Permission]]) -> None:
    """Gives each role its permissions; makes what is missing, takes nothing away. `apps`: a migration's registry."""
    group_model = apps.get_model("auth", "Group")
    permission_model = apps.get_model("auth", "Permission")
    type_model = apps.get_model("contenttypes", "ContentType")
    for role, wanted in permissions.items():
        group, _ = group_model.objects.get_or_create(name=role)
        for app, model, codename in wanted:
            content_type, _ = type_model.objects.get_or_create(app_label=app, model=model)
            verb, _, noun = codename.partition("_")
            permission, _ = permission_model.objects.get_or_create(
                content_type=content_type,
                codename=codename,
                defaults={"name": NAMES.get(codename, f"Can {verb} {_verbose(apps, app, model) or noun}")},
            )
            group.permissions.add(permission)


def withdraw(apps: Any, permissions: Mapping[str, Sequence[Permission]]) -> None:
    """Takes from roles what `grant` once gave them."""
    permission_model = apps.get_model("auth", "Permission")
    for role, unwanted in permissions.items():
        for group in apps.get_model("auth", "Group").objects.filter(name=role):
            for app, model, codename in unwanted:
                one = {"content_type__app_label": app, "content_type__model": model, "codename": codename}
                group.permissions.remove(*permission_model.objects.filter(**one))


def _verbose(apps: Any, app: str, model: str) -> str:
    return str(apps.get_model(app, model)._meta.verbose_name_raw)
