"""The page of an error under RTMPWEB_DEBUG."""

import base64
import json
import os
import subprocess
import sys

import pytest

from tests.server_process import ROOT

PAGES = """
import json, os, sys
from django.conf import settings
from django.test import RequestFactory
from django.views.debug import technical_500_response

def fails(url, broker, of_a_mail_server):
    parameters = {"dbname": "none", "params": settings.DATABASES["default"]}
    raise ValueError(f"{url} can't be reached")

of = json.loads(os.environ["OF_REQUEST"])
for accept in ("text/html", "text/plain"):
    request = RequestFactory().post(
        "/x?token=" + of["query"], {"password": of["form"], "name": "shown"},
        headers={"accept": accept, "authorization": "Basic " + of["header"], "cookie": "sessionid=" + of["cookie"]},
    )
    try:
        fails(settings.DATABASE_URL, settings.REDIS_URL, settings.EMAIL_HOST_PASSWORD)
    except ValueError:
        print(technical_500_response(request, *sys.exc_info()).content.decode())
"""

OF_SETTINGS = {
    "DATABASE_URL": "postgresql://rtmpweb:{}@127.0.0.1:1/none",
    "REDIS_URL": "redis://:a@b{}@127.0.0.1:1/0",
    "RTMPWEB_EMAIL_URL": "smtps://mailer:{}@mail.example.org:465",
    "SPARK_REMOTE": "sc://127.0.0.1:1/;token={}",
    "RTMPWEB_AUTH_URL": "https://auth.example.org/{}",
    "RTMPWEB_AUTH_SECRET": "{}",
    "RTMPWEB_SECRET_KEY": "{}",
    "RTMPWEB_KEY_PEPPER": "{}",
}


OF_REQUEST = {name: f"the-secret-{name}-of-the-request" for name in ("query", "form", "cookie")} | {
    "header": base64.b64encode(b"chief:the-secret-header").decode()
}


@pytest.fixture(scope="module")
def secrets() -> dict[str, str]:
    of_settings = {name: f"the-secret-{number}-of-the-settings" for number, name in enumerate(OF_SETTINGS)}
    return of_settings | OF_REQUEST


@pytest.fixture(scope="module")
def pages(secrets: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """As HTML and as text, of a process whose settings hold all of the secrets."""
    environment = {name: form.format(secrets[name]) for name, form in OF_SETTINGS.items()}
    folder = {"RTMPWEB_DATA_DIR": str(tmp_path_factory.mktemp("var")), "RTMPWEB_DEBUG": "yes"}
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", PAGES],
        cwd=ROOT,
        env={**os.environ, **environment, **folder, "OF_REQUEST": json.dumps(OF_REQUEST)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_secret_is_on_it(pages: str, secrets: dict[str, str]) -> None:
    assert [name for name, secret in secrets.items() if secret in pages] == []


@pytest.mark.parametrize(
    "told", ["can&#x27;t be reached", "can't be reached", "127.0.0.1:1/none", "EMAIL_URL", "mail.example.org", "shown"]
)
def test_what_is_no_secret_is(pages: str, told: str) -> None:
    assert told in pages
