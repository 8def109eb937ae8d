"""`manage.py application`: makes, changes, disables and deletes RTMP applications."""

from typing import Any

from django.core.management.base import CommandError

from ingest.management import base
from ingest.management.base import Answer, Argument, Verb, VerbCommand
from ingest.models import Application
from ingest.services import actions as services_actions
from ingest.services import removal
from ingest.services.removal import Removal

ON_OFF = {"on": True, "off": False}

RECORD = {"on": Application.RecordPolicy.ALL, "off": Application.RecordPolicy.NONE}
"""What was said before there were three policies."""

FIELDS = {"publish": "publish_policy", "play": "play_policy"}
"""The model's field of a setting that has another name."""

READ: dict[str, dict[Any, Any]] = {"record": RECORD, "encoder_login": ON_OFF, "enabled": ON_OFF}
"""What the words of these mean."""

NAME = Argument("name")

SETTINGS = (
    Argument(
        "--publish",
        choices=Application.PublishPolicy.values,
        help="key: with a stream key. open: anyone, under any name; for a trusted network or a benchmark only",
    ),
    Argument(
        "--play",
        choices=Application.PlayPolicy.values,
        help="public: anyone. token: with a signed token. none: nobody",
    ),
    Argument(
        "--record",
        choices=[*Application.RecordPolicy.values, *RECORD],
        help="requested: what encoders ask to record. all (or on): everything. none (or off): nothing",
    ),
    Argument(
        "--play-recordings",
        choices=Application.PlayRecordings.values,
        help="signed: with a signed link or token (the default). as_live: the same as live streams",
    ),
    Argument("--encoder-login", choices=list(ON_OFF), help="whether encoders are asked for a user and password"),
    Argument(
        "--shared-objects",
        choices=Application.SharedObjects.values,
        help="none, temporary: until their last client leaves, persistent: kept in the database as well",
    ),
    Argument(
        "--callback",
        choices=Application.Callback.values,
        help="for whom the authorisation service (RTMPWEB_AUTH_URL) is asked",
    ),
    Argument(
        "--play-start-unit",
        choices=Application.StartUnit.values,
        help="of the start and duration that players ask for: ms, as FFmpeg and librtmp mean them (the default), "
        "or s, as the specification says, for programs that keep to it",
    ),
    Argument(
        "--max-instances",
        type=int,
        metavar="N",
        help="instances (rtmp://host/NAME/INSTANCE), at most; 0: none. Default 16",
    ),
    Argument("--enabled", choices=list(ON_OFF), help="off: ends its sessions and refuses new ones"),
)


class Command(VerbCommand):
    help = "Makes, changes, disables and deletes an RTMP application, the first part of an RTMP URL; lists all."

    @Verb("make the application, or change what is given", NAME, *SETTINGS)
    def _set(self, name: str, **settings: Any) -> Answer:
        return self._save(Application.objects.filter(name=name).first() or Application(name=name), settings)

    @Verb("make one that isn't there yet", NAME, *SETTINGS)
    def _create(self, name: str, **settings: Any) -> Answer:
        if Application.objects.filter(name=name).exists():
            raise CommandError(f"There is an application {name!r} already. Change it with: application set {name}")
        return self._save(Application(name=name), settings)

    @Verb("its policies, and what there is of it", NAME)
    def _show(self, name: str) -> Answer:
        found = base.application_of(name)
        return self.show(found, _plan(found))

    @Verb("list the applications")
    def _list(self) -> Answer:
        return self.listing(Application.objects.all())

    @Verb("refuse it to all, and end what goes on of it", NAME)
    def _disable(self, name: str) -> Answer:
        return self.set_enabled(base.application_of(name), False)

    @Verb("allow it again", NAME)
    def _enable(self, name: str) -> Answer:
        return self.set_enabled(base.application_of(name), True)

    @Verb("delete it with its streams, its recordings and all that is set up", NAME, *base.DELETION)
    def _delete(self, name: str, force: bool, **options: bool) -> Answer:
        found = base.application_of(name)
        return self.delete(
            name,
            _plan(found),
            lambda: removal.delete_application(self.actor, found, force=force),
            force=force,
            **options,
        )

    def _save(self, application: Application, settings: dict[str, Any]) -> Answer:
        is_new = application.pk is None
        fields = {
            FIELDS.get(setting, setting): READ.get(setting, {}).get(value, value)
            for setting, value in settings.items()
            if value is not None
        }
        services_actions.save_application(self.actor, application, **fields)
        return self.of_one(application, "Made" if is_new else "Changed")

    def row(self, application: Application) -> dict[str, Any]:
        return {
            "name": application.name,
            "enabled": application.enabled,
            **{setting.dest: getattr(application, FIELDS.get(setting.dest, setting.dest)) for setting in SETTINGS},
        }

    def line(self, row: dict[str, Any]) -> str:
        return "  ".join([row["name"], *(f"{setting.dest}={row[setting.dest]}" for setting in SETTINGS)])


def _plan(application: Application) -> Removal:
    return removal.of_applications(Application.objects.filter(pk=application.pk))
