"""Instances of an application: namespaces of its streams, whose names begin with theirs (RTMP 1.0, 7.2.1.1: appName/
appInstance). None has a row of its own: one is there as long as a stream or a recording of it is.

How many an application may have is said by the application. In one that is open they come with whoever publishes.
"""

from collections.abc import Iterable
from typing import Literal

from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from ingest.models import Application, Recording, Stream
from ingest.server.credentials import is_masked, looks_like_key
from ingest.services import keys
from ingest.validators import instance_of, is_instance


def split(app: str) -> tuple[str, str]:
    """What a client connects to: the application, and its instance or ""."""
    application, _, instance = app.partition("/")
    return application, instance


def full_name(instance: str, name: str) -> str:
    """A stream's name, by what a client of the instance calls it. Who gives none has none."""
    return f"{instance}/{name}" if instance and name else name


def is_known(*, application: Application, instance: str) -> bool:
    return any(each.filter(instance=instance).exists() for each in _within(application))


def names(*, application: Application) -> set[str]:
    """Of those that its streams and recordings have."""
    streams, recordings = (each.filter(instance__gt="").values_list("instance") for each in _within(application))
    return {name for (name,) in streams.union(recordings)}


def _within(application: Application) -> tuple[QuerySet[Stream], QuerySet[Recording]]:
    of = {"application": application}
    return Stream.objects.filter(**of).order_by(), Recording.objects.filter(**of).order_by()


def why_not(*, application: Application, instance: str) -> Literal["", "instance_unknown", "too_many_instances"]:
    """Whether a client may connect to it, or publish a stream that is the first of it; "": it may.

    A key that stands in its place is never taken for one, whether it is known here or only looks like one.
    """
    if not is_instance(instance) or is_masked(instance):
        return "instance_unknown"
    if is_known(application=application, instance=instance):
        return ""
    if application.publish_policy != Application.PublishPolicy.OPEN:
        return "instance_unknown"
    if looks_like_key(instance) or keys.find(secret=instance) is not None:
        return "instance_unknown"
    return "" if len(names(application=application)) < application.max_instances else "too_many_instances"


def check_room(*, application: Application, made: Iterable[str]) -> None:
    """Raises ValidationError if streams of these names, which are to be made, would be of an instance too many."""
    wanted = {instance_of(name) for name in made} - {""}
    if not wanted:
        return
    there = names(application=application)
    if wanted - there and len(wanted | there) > application.max_instances:
        raise ValidationError(
            f"The application {application.name} may have {application.max_instances} instances, and has {len(there)}. "
            f"Take one of those, or let it have more: manage.py application set {application.name} --max-instances N"
        )
