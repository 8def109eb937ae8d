"""Times that people type: read in the current zone, and shown so again.

Where clocks go back, one text stands for two moments, and none has parts of a second. So an input whose text would not
be read as the moment that it shows has that beside it: who sends the text back as it was means that very moment.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard import zones

BESIDE = "{}_at"
"""The name of the hidden input beside one."""


def moment(text: str) -> datetime | None:
    """An ISO 8601 time, in UTC; None when it is none. One that names no zone is meant in the current one: the first of
    two where clocks go back; where they skip it, as far behind the change as it seems to be.
    """
    try:
        found = parse_datetime(text.strip())
        return zones.aware(found) if found else None
    except (ValueError, OverflowError):
        return None


def given(values: Mapping[str, Any], name: str) -> str:
    """What an input of this name was sent with, as a text that `moment` reads as what the input showed."""
    at = _shown(values, name)
    return str(values.get(name) or "").strip() if at is None else at.isoformat()


def _shown(values: Mapping[str, Any], name: str) -> datetime | None:
    """The moment that stood beside the input, if its text is that moment's still."""
    at = moment(str(values.get(BESIDE.format(name)) or ""))
    return at if at is not None and zones.field(at) == values.get(name) else None


class MomentInput(forms.DateTimeInput):
    """Of a moment, or of the text that somebody typed."""

    input_type = "datetime-local"
    supports_microseconds = True

    def format_value(self, value: Any) -> str:
        return zones.field(value) if isinstance(value, datetime) else str(value or "")

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> SafeString:
        shown = super().render(name, value, attrs, renderer)
        if not isinstance(value, datetime) or moment(zones.field(value)) == value:
            return shown
        at = value.astimezone(UTC).isoformat()
        return shown + format_html('<input type="hidden" name="{}" value="{}">', BESIDE.format(name), at)

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> Any:
        return _shown(data, name) or super().value_from_datadict(data, files, name)


class MomentField(forms.DateTimeField):
    """Its value is in UTC."""

    widget = MomentInput

    def prepare_value(self, value: Any) -> Any:
        return value

    def to_python(self, value: Any) -> datetime | None:
        if value in self.empty_values:
            return None
        at = value if isinstance(value, datetime) else moment(str(value))
        if at is None:
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return at
