"""What names and networks may look like: used by the models' forms, the commands and, for open streams, admission."""

import ipaddress
import re
from typing import Any

from django.core.exceptions import ValidationError

from ingest import clean

APP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
PLAIN_NAME = re.compile(r"[^\s/?#&%\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,255}")
"""Any text that stands in a URL's path and in an RTMP name without being split or decoded there."""

INSTANCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,63}")
"""Of an application: the first part of the names of its streams, which a URL has between the two. It is short, as names
of streams have 255 characters with it."""

MOST_OF_A_NAME = 255

NOT_WITHIN = frozenset(("acknowledge", "kick", "mute", "notes", "samples", "token"))
"""What the API's URLs have behind a stream's name: no names of an instance's streams, or it would be the same."""

ENCODER_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What stands in a URL, and in a query, as it is: encoders neither encode nor decode it."""

DOTS = {".", ".."}


def validate_app_name(value: str) -> None:
    if not APP_NAME.fullmatch(value):
        raise ValidationError("Use letters, digits and . _ ~ - only, beginning with a letter or a digit.")


def is_plain_name(value: str) -> bool:
    """Of a stream without an instance; and what can be sent in its place. Two that look the same are the same: none has
    what can't be seen."""
    return PLAIN_NAME.fullmatch(value) is not None and value not in DOTS and not clean.has_unseen(value)


def is_instance(value: str) -> bool:
    return INSTANCE.fullmatch(value) is not None


def is_stream_name(value: str) -> bool:
    """NAME or INSTANCE/NAME."""
    instance, slash, name = value.rpartition("/")
    if not slash:
        return is_plain_name(value)
    return len(value) <= MOST_OF_A_NAME and is_instance(instance) and is_plain_name(name) and name not in NOT_WITHIN


def instance_of(name: str) -> str:
    """The instance that a stream's name begins with; "": it has none."""
    return name.rpartition("/")[0]


def name_within(name: str) -> str:
    """A stream's name as its clients send it: without the instance that it begins with."""
    return name.rpartition("/")[2]


def validate_stream_name(value: str) -> None:
    if not is_stream_name(value):
        raise ValidationError(
            "Use 1 to 255 characters that can be seen, without blanks and without / ? # & % and the backslash. One / "
            "may stand behind an instance of the application, which is up to 64 letters, digits and . _ ~ -, beginning "
            f"with a letter or a digit; the name is then none of {', '.join(sorted(NOT_WITHIN))}."
        )


def is_encoder_user(value: str) -> bool:
    return ENCODER_USER.fullmatch(value) is not None


def validate_encoder_user(value: str) -> None:
    if not is_encoder_user(value):
        raise ValidationError("Use 1 to 64 letters, digits and . _ - only, beginning with a letter or a digit.")


def validate_networks(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValidationError('Give a list of networks, such as ["192.0.2.0/24"].')
    for item in value:
        try:
            ipaddress.ip_network(item)
        except ValueError as error:
            raise ValidationError(f"{error}.") from None
