"""What names may look like."""

import sys
from unicodedata import category

import pytest
from django.core.exceptions import ValidationError

from ingest.models.names import instance_of, is_stream_name, name_within, validate_stream_name

UNSEEN = [chr(code) for code in range(sys.maxunicode + 1) if category(chr(code)) == "Cf"]


@pytest.mark.parametrize("name", ["cam1", "cam.1", "mira@home", "名前", "Кам1", "it's", "a:b,c=d", "🎥", "é"])
def test_names(name: str) -> None:
    validate_stream_name(name)


@pytest.mark.parametrize(("whole", "parts"), [("room/cam1", ("room", "cam1")), ("cam1", ("", "cam1")), ("", ("", ""))])
def test_a_name_has_an_instance_and_what_it_is_called_within(whole: str, parts: tuple[str, str]) -> None:
    assert (instance_of(whole), name_within(whole)) == parts


def test_no_name_has_what_can_not_be_seen() -> None:
    assert "\u202e" in UNSEEN
    assert [sign for sign in UNSEEN if is_stream_name(f"cam{sign}1")] == []
    with pytest.raises(ValidationError, match="that can be seen"):
        validate_stream_name("gpj.\u202emac")
