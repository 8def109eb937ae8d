"""Names of streams in URLs: NAME or INSTANCE/NAME, where a word behind a name stays what it is to the API."""

from django.urls import register_converter
from django.urls.converters import StringConverter

from ingest.validators import NOT_WITHIN


class StreamNameConverter(StringConverter):
    regex = rf"[^/]+(?:/(?!(?:{'|'.join(sorted(NOT_WITHIN))})\Z)[^/]+)?"


register_converter(StreamNameConverter, "stream")
