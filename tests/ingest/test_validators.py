"""What names may look like."""

import sys
from unicodedata import category

import pytest
from django.core.exceptions import ValidationError

from ingest.validators import is_stream_name, validate_stream_name

UNSEEN = [chr(code) for code in range(sys.maxunicode + 1) if category(chr(code)) == "Cf"]


@pytest.mark.parametrize("name", ["cam1", "cam.1", "mira@home", "名前", "Кам1", "it's", "a:b,c=d", "🎥", "é"])
def test_names(name: str) -> None:
    validate_stream_name(name)


def test_no_name_has_what_can_not_be_seen() -> None:
    assert "\u202e" in UNSEEN
    assert [sign for sign in UNSEEN if is_stream_name(f"cam{sign}1")] == []
    with pytest.raises(ValidationError, match="that can be seen"):
        validate_stream_name("gpj.\u202emac")
