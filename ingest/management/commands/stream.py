"""`manage.py stream`: makes, shows, disables and deletes streams."""

from typing import Any

from django.core.management.base import CommandError

from ingest import command_line
from ingest.management import base
from ingest.management.base import Answer, Argument, Verb, VerbCommand
from ingest.models import Stream
from ingest.services import media_urls, play_policy, removal
from ingest.services.removal import Removal

STREAM = Argument("stream", metavar="APP/NAME")

PLAY = {"as-application": Stream.PlayPolicy.APPLICATION} | {each: each for each in Stream.PlayPolicy.values if each}
"""What is said, and the policy."""

ON_OFF = {"on": True, "off": False}


class Command(VerbCommand):
    help = (
        "Makes, shows, changes, disables and deletes streams. One that is disabled is refused to encoders and players, "
        "and what goes on of it ends within 2 s, on whichever node it is."
    )

    @Verb("make a stream in its application", STREAM)
    def _create(self, stream: str) -> Answer:
        app, name = base.split_path(stream)
        if Stream.objects.filter(application__name=app, name=name).exists():
            raise CommandError(f"There is a stream {stream!r} already.")
        return self.of_one(base.stream_of(stream, make=self.actor), "Made")

    @Verb("its settings, and what there is of it", STREAM)
    def _show(self, stream: str) -> Answer:
        found = base.stream_of(stream)
        return self.show(found, _plan(found))

    @Verb("list streams", Argument("app", metavar="APP", nargs="?", help="only of this application"))
    def _list(self, app: str | None) -> Answer:
        rows = Stream.objects.select_related("application", "owner")
        if app is not None:
            rows = rows.filter(application=base.application_of(app))
        empty = f"There are no streams. Make one with: {command_line.here('stream create APP/NAME')}"
        return self.listing(rows, empty=empty)

    @Verb(
        "say who may watch it, and when it is ready for browsers",
        STREAM,
        Argument(
            "--play",
            choices=list(PLAY),
            help="public: anyone. token: by link. none: nobody. as-application: by the application's policy",
        ),
        Argument("--hls-always", choices=list(ON_OFF), help="on: while it is live. off: once somebody watches"),
    )
    def _set(self, stream: str, play: str | None, hls_always: str | None) -> Answer:
        found, given = base.stream_of(stream), dict[str, Any]()
        if play is not None:
            given["play_policy"] = PLAY[play]
        if hls_always is not None:
            given["hls_always"] = ON_OFF[hls_always]
        play_policy.change(self.actor, found, **given)
        return self.of_one(found, "Changed")

    @Verb("make a link that works until the next; those so far don't any more", STREAM)
    def _new_link(self, stream: str) -> Answer:
        found = base.stream_of(stream)
        if found.effective_play_policy != Stream.PlayPolicy.TOKEN:
            by_link = command_line.here("stream set", found.path, "--play token")
            raise CommandError(f"{found.path} is not played by link. To have it so: {by_link}")
        link = play_policy.new_link(self.actor, stream=found)
        urls = {name: getattr(link, name) for name in ("watch_url", "hls_url", "play_url", "flv_url", "token")}
        lines = [f"{name.replace('_', ' ')}: {url}" for name, url in urls.items() if url]
        return Answer({"stream": found.path, **urls}, lines)

    @Verb("refuse it to all, and end what goes on of it", STREAM)
    def _disable(self, stream: str) -> Answer:
        return self.set_enabled(base.stream_of(stream), False)

    @Verb("allow it again", STREAM)
    def _enable(self, stream: str) -> Answer:
        return self.set_enabled(base.stream_of(stream), True)

    @Verb(
        "delete it with its keys and all that is set up for it",
        STREAM,
        Argument("--recordings", action="store_true", help="with its recordings and their files; else they stay"),
        *base.DELETION,
    )
    def _delete(self, stream: str, recordings: bool, force: bool, **options: bool) -> Answer:
        found = base.stream_of(stream)
        return self.delete(
            stream,
            _plan(found),
            lambda: removal.delete_stream(self.actor, found, force=force, with_recordings=recordings),
            force=force,
            **options,
        )

    def row(self, stream: Stream) -> dict[str, Any]:
        return {
            "app": stream.application.name,
            "name": stream.name,
            "enabled": stream.enabled,
            "owner": stream.owner.get_username() if stream.owner is not None else None,
            **base.values(stream, "target_kbps", "takeover", "created_at", "play_policy", "hls_always"),
            "hls_url": media_urls.hls_url(stream=stream),
            "watch_url": media_urls.watch_url(stream=stream),
        }

    def line(self, row: dict[str, Any]) -> str:
        expected = f"  target={row['target_kbps']} kbit/s" if row["target_kbps"] else ""
        play = next(word for word, policy in PLAY.items() if policy == row["play_policy"])
        shown = f"enabled={row['enabled']}  play={play}  takeover={row['takeover']}{expected}"
        return f"{row['app']}/{row['name']}  {shown}"


def _plan(stream: Stream) -> Removal:
    return removal.of_streams(Stream.objects.filter(pk=stream.pk))
