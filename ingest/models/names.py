"""What names and networks may look like, for models, forms, commands and, for open streams, admission; and the names
under which test-only keys publish.

What is published with a test-only key is a test of its stream, beside what the stream itself is. It lives under a path
of its own, `app/name#test.KEY`. No stream can have that name and nothing a player asks for leads to it, so the rest of
the server needs to know nothing of it: it is measured and evaluated as any stream, under whatever limits its stream
has, and takes no lease. docs/adr/0010-test-only-keys.md says more."""

import ipaddress
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError

from ingest import clean
from ingest.contracts import StreamSnapshot

APP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
PLAIN_NAME = re.compile(r"[^\s/?#&%\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,255}")
"""Any text that stands in a URL's path and in an RTMP name without being split or decoded there."""

INSTANCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,63}")
"""Of an application: the first part of the names of its streams, which a URL has between the two. It is short, as names
of streams have 255 characters with it."""

MOST_OF_A_NAME = 255

NOT_WITHIN = frozenset(("acknowledge", "kick", "mute", "notes", "pull", "pushes", "samples", "token"))
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


TEST_MARK: Final = "#test."
"""In a live stream's name, before its key's number. Streams' names hold no '#' (`ingest.models.names`)."""

TEST_MOST: Final = timedelta(minutes=10)
"""How long a key test goes on. Then it ends as test_over."""

TEST_REST: Final = timedelta(seconds=60)
"""After that its key is refused for so long: encoders come back as soon as they are dropped, and give up when they are
refused."""


def test_live_name(name: str, key: int) -> str:
    return f"{name}{TEST_MARK}{key}"


def is_key_test(name: str) -> bool:
    """Of a live stream's name."""
    return TEST_MARK in name


def without_key_tests(snapshots: Iterable[StreamSnapshot]) -> tuple[list[StreamSnapshot], tuple[StreamSnapshot, ...]]:
    """Streams, and key tests."""
    streams = list(snapshots)
    key_tests = tuple(snapshot for snapshot in streams if TEST_MARK in snapshot["name"])
    return [snapshot for snapshot in streams if TEST_MARK not in snapshot["name"]] if key_tests else streams, key_tests


class NetworksField(forms.CharField):
    """A list of networks, one a line."""

    widget = forms.Textarea(attrs={"rows": 3, "cols": 40, "placeholder": "192.0.2.0/24"})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]
        return str(value or "").replace(",", " ").split()

    def run_validators(self, value: Any) -> None:
        validate_networks(value)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(data) != (initial or [])
