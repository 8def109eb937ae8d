"""Who may watch a stream, as people say it: its policy, and the links to it.

Links are tokens (ingest.services.play_tokens) of the stream's generation. A new generation makes all links so far
invalid: when somebody asks for a new one, and when the policy is "by link" no more. Whoever plays then and may have no
more right to it is ended within 2 s, on whichever node; who has it comes again."""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from ingest.models import Application, Stream
from ingest.services import audit, media_urls, sessions
from ingest.services.audit import Actor, audited

CHANGED = "Who may watch the stream was changed."
REPLACED = "The links to the stream were replaced."


def change(actor: Actor, stream: Stream, **given: Any) -> None:
    """`play_policy` and `hls_always`, what is given of them and differs. Raises ValidationError."""
    changed = {name: [getattr(stream, name), value] for name, value in given.items() if getattr(stream, name) != value}
    if not changed:
        return
    former = stream.effective_play_policy
    for name, (_, value) in changed.items():
        setattr(stream, name, value)
    stream.clean_fields({field.name for field in Stream._meta.fields} - set(changed))
    with audited(actor, "stream.play_policy", stream.path, stream=stream, changed=changed):
        stream.save(update_fields=list(changed))
        apply(stream, former)


def apply(stream: Stream, former: str) -> None:
    """What follows from a change of the policy that holds, in its transaction; `former`: which held before."""
    policy = stream.effective_play_policy
    if policy == former:
        return
    if former == Stream.PlayPolicy.TOKEN:
        _raise_generation(stream)
    if policy != Stream.PlayPolicy.PUBLIC:
        sessions.end_players([stream], note=CHANGED)


def apply_of_application(application: Application, former: str) -> None:
    """The same for its streams that have no policy of their own."""
    policy, streams = application.play_policy, Stream.objects.filter(application=application, play_policy="")
    if policy == former:
        return
    if former == Application.PlayPolicy.TOKEN:
        streams.update(link_generation=F("link_generation") + 1)
    if policy != Application.PlayPolicy.PUBLIC:
        sessions.end_players(streams, note=CHANGED)


def new_link(
    actor: Actor,
    *,
    stream: Stream,
    lifetime: timedelta = media_urls.LASTING,
    page: str = "",
    site: str = "",
) -> media_urls.PlayLink:
    """In place of all so far, which work no more. `page`, `site`: as of `media_urls`."""
    with transaction.atomic():
        _raise_generation(stream)
        sessions.end_players([stream], note=REPLACED)
        link = media_urls.make_play_link(stream, lifetime, page=page, site=site)
        audit.record(actor, "play_token.replace", stream.path, stream=stream, expires_at=link.expires_at)
    return link


def _raise_generation(stream: Stream) -> None:
    Stream.objects.filter(pk=stream.pk).update(link_generation=F("link_generation") + 1)
    stream.refresh_from_db(fields=["link_generation"])
