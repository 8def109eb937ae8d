"""What the page of an error shows under RTMPWEB_DEBUG: no secret, by whatever name it goes, wherever it stands.

Django hides settings by their names, and nothing of the variables. Here URLs lose their credentials, and then all that
is known for a secret, of the settings or of the request, is taken out of the whole page.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from django.conf import settings
from django.http import HttpRequest
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.views.debug import ExceptionReporter, SafeExceptionReporterFilter

MASK = SafeExceptionReporterFilter.cleansed_substitute

SECRETS = ("SECRET_KEY", "KEY_PEPPER", "AUTH_SECRET", "AUTH_URL")
"""Settings that are secret as a whole."""

URLS = ("DATABASE_URL", "REDIS_URL", "EMAIL_URL", "SPARK_REMOTE")
"""Settings that are URLs with credentials in them."""

SHORTEST = 6
"""Characters of a secret that is looked for in the page: shorter ones stand everywhere."""

_IN_URL = re.compile(r"://[^\s/?#@:]*:(\S+)@|[;?&](?:token|key|password)=([^\s;&#]+)", re.IGNORECASE)


class Filter(SafeExceptionReporterFilter):
    def cleanse_setting(self, key: int | str, value: Any) -> Any:
        cleansed = super().cleanse_setting(key, value)
        return _mask(cleansed, _in_urls(cleansed)) if isinstance(cleansed, str) else cleansed

    def get_post_parameters(self, request: HttpRequest | None) -> dict[str, Any]:
        """By their names, as settings are."""
        return {name: self.cleanse_setting(name, value) for name, value in super().get_post_parameters(request).items()}


class Reporter(ExceptionReporter):
    def get_traceback_html(self) -> SafeString:
        return SafeString(_mask(super().get_traceback_html(), self._secrets()))

    def get_traceback_text(self) -> SafeString:
        return SafeString(_mask(super().get_traceback_text(), self._secrets()))

    def _secrets(self) -> set[str]:
        found = {*_of_settings(), *(_of_request(self.request) if self.request is not None else ())}
        return {secret for secret in found if len(secret) >= SHORTEST}


def _mask(text: str, secrets: set[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        for form in (secret, escape(secret)):
            text = text.replace(form, MASK)
    return text


def _in_urls(text: str) -> set[str]:
    return {found for pair in _IN_URL.findall(text) for found in pair if found}


def _of_settings() -> Iterator[str]:
    for name in SECRETS:
        yield getattr(settings, name)
    for name in URLS:
        for secret in _in_urls(getattr(settings, name)):
            yield from (secret, unquote(secret))
    yield str(settings.DATABASES["default"].get("PASSWORD", ""))
    yield settings.EMAIL_HOST_PASSWORD


def _of_request(request: HttpRequest) -> Iterator[str]:
    hidden = Filter()
    for given in (request.POST, request.COOKIES, request.GET):
        for name, value in given.items():
            if isinstance(value, str) and hidden.cleanse_setting(name, value) == MASK:
                yield value
    yield request.META.get("HTTP_AUTHORIZATION", "").rpartition(" ")[2]
