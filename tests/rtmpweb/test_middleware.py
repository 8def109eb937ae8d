"""What stands before pages: static files, a proxy's clients, how many run at a time, the page of an error."""

import asyncio
import base64
import json
import os
from ipaddress import ip_network
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.http import HttpResponse
from django.test import AsyncClient, Client

from dashboard.system.watch import Watch
from rtmpweb.middleware import WAITING_EACH, ProxiedClient, RequestLimit, StaticFilesMiddleware
from tests.rtmpweb.processes import SHELL, run
from tests.server.waiting import becomes

PATH = "/static/admin/css/base.css"


def content() -> bytes:
    found = finders.find("admin/css/base.css")
    assert isinstance(found, str)
    with open(found, "rb") as file:
        return file.read()


def test_static_file_is_served_with_its_type_and_nosniff() -> None:
    answer = Client().get(PATH)
    assert answer.status_code == 200
    assert answer.content == content()
    assert answer["Content-Type"].startswith("text/css")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in answer


@pytest.mark.parametrize(
    ("headers", "status", "start", "end"), [({}, 200, 0, None), ({"range": "bytes=10-19"}, 206, 10, 20)]
)
async def test_static_file_under_asgi_supports_ranges_and_etag(
    headers: dict[str, str], status: int, start: int, end: int | None
) -> None:
    answer = await AsyncClient().get(PATH, headers=headers)
    assert (answer.status_code, answer.content) == (status, content()[start:end])
    assert int(answer["Content-Length"]) == len(answer.content)
    again = await AsyncClient().get(PATH, headers={"if-none-match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b""), "a copy that is still good"


async def test_files_can_only_be_read() -> None:
    head = await AsyncClient().head(PATH)
    assert (head.status_code, head.content, int(head["Content-Length"])) == (200, b"", len(content()))
    assert (await AsyncClient().post(PATH)).status_code == 405


def test_static_files_are_small_and_without_source_maps() -> None:
    served = StaticFilesMiddleware(lambda request: HttpResponse()).files
    assert PATH in served
    sizes = {path: os.stat(found.alternatives[-1][1]).st_size for path, found in served.items()}
    assert not [path for path, size in sizes.items() if size > 640 * 1024 or path.endswith(".map")]


async def test_static_libraries_are_sent_gzipped() -> None:
    """Viewers fetch hls.js before they see anything."""
    answer = await AsyncClient().get("/static/vendor/hls.min.js", headers={"accept-encoding": "gzip"})
    assert answer["Content-Encoding"] == "gzip"
    assert len(answer.content) < 200 * 1024


async def test_unknown_static_paths_are_404() -> None:
    for path in ("/static/nothing.css", "/static/../manage.py", "/static/admin/css/"):
        assert (await AsyncClient().get(path)).status_code == 404


def test_the_icon_that_browsers_ask_for_by_themselves() -> None:
    answer = Client().get("/favicon.ico", follow=True)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "image/svg+xml"


HEADERS = [(b"host", b"localhost"), (b"x-forwarded-for", b"198.51.100.9"), (b"x-forwarded-for", b"192.0.2.7")]


@pytest.mark.parametrize(
    ("peer", "network", "client"),
    [
        (["127.0.0.1", 4711], "127.0.0.1", ["192.0.2.7", 0]),
        (["127.0.0.1", 4711], "10.0.0.0/8", ["127.0.0.1", 4711]),
        (None, "127.0.0.1", None),
    ],
)
async def test_client_address_is_taken_from_a_trusted_proxy_only(
    peer: list[Any] | None, network: str, client: list[Any] | None
) -> None:
    found = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        found.append(scope["client"])

    scope = {"type": "http", "client": peer, "headers": HEADERS}
    await ProxiedClient(application, [ip_network(network)])(scope, None, None)
    assert found == [client]
    assert scope["client"] == peer


class Application:
    """Requests that run until they are let go."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.bodies: list[bytes] = []
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.running += 1
        self.bodies.append((await receive())["body"])
        self.most = max(self.most, self.running)
        try:
            await self.go_on.wait()
        finally:
            self.running -= 1


class Asked:
    def __init__(self, bounded: RequestLimit, path: str, body: bytes) -> None:
        self.says: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.says.put_nowait({"type": "http.request", "body": body, "more_body": False})
        self.told: list[dict[str, Any]] = []
        self.task = asyncio.create_task(bounded({"type": "http", "path": path}, self.says.get, self._hear))

    async def _hear(self, message: dict[str, Any]) -> None:
        self.told.append(message)

    def leave(self) -> None:
        self.says.put_nowait({"type": "http.disconnect"})


def ask(bounded: RequestLimit, count: int, path: str = "/") -> list[Asked]:
    return [Asked(bounded, path, b"%d" % number) for number in range(count)]


async def finish(*requests: Asked) -> None:
    await asyncio.wait_for(asyncio.gather(*(request.task for request in requests)), 5)


async def test_requests_over_the_limit_wait_for_a_free_place() -> None:
    application = Application()
    requests = ask(RequestLimit(application, 2), 7)
    await becomes(lambda: application.running == 2, 20)
    requests.pop().task.cancel()  # Who goes while waiting leaves no place empty,
    requests.pop(0).task.cancel()  # nor does who goes while it runs.
    application.go_on.set()
    await finish(*requests)
    assert application.most == 2


async def test_waiting_request_whose_client_left_is_dropped() -> None:
    application = Application()
    bounded = RequestLimit(application, 2)
    requests = ask(bounded, 6)
    await becomes(lambda: application.running == 2, 20)
    for request in requests[3:]:
        request.leave()
    await becomes(lambda: all(request.task.done() for request in requests[3:]), 20)
    application.go_on.set()
    await finish(requests[2])
    assert sorted(application.bodies) == [b"0", b"1", b"2"]
    await finish(*ask(bounded, 2))  # And all places are there again.


async def test_client_leaving_as_its_turn_comes_frees_the_place_for_the_next() -> None:
    application = Application()
    bounded = RequestLimit(application, 1)
    first, second, third = ask(bounded, 3)
    await becomes(lambda: application.running == 1, 20)
    application.go_on.set()
    first.task.add_done_callback(lambda _: second.leave())
    await finish(first, second, third)
    assert application.bodies[-1] == b"2"


async def test_request_beyond_the_waiting_limit_is_503_with_retry_after() -> None:
    application = Application()
    bounded = RequestLimit(application, 1)
    *_, refused = requests = ask(bounded, 1 + WAITING_EACH + 1)
    await finish(refused)
    start, body = refused.told
    assert start["status"] == 503
    assert dict(start["headers"])[b"retry-after"] == b"5"
    assert b"try again" in body["body"]
    application.go_on.set()
    await finish(*requests)
    assert len(application.bodies) == 1 + WAITING_EACH


async def test_healthz_bypasses_the_request_limit() -> None:
    application = Application()
    bounded = RequestLimit(application, 1)
    requests = ask(bounded, 2)
    await becomes(lambda: application.running == 1, 20)
    requests += ask(bounded, 1, "/healthz")
    await becomes(lambda: application.running == 2, 20)
    application.go_on.set()
    await finish(*requests)


async def test_requests_bypass_the_limit_while_the_database_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application()
    bounded = RequestLimit(application, 1)
    requests = ask(bounded, 1)
    await becomes(lambda: application.running == 1, 20)
    monkeypatch.setattr(Watch, "database_is_down", True)
    requests += ask(bounded, 3)
    await becomes(lambda: application.running == 4, 20)
    application.go_on.set()
    await finish(*requests)


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
    given = {**environment, **folder, "OF_REQUEST": json.dumps(OF_REQUEST)}
    done = run(*SHELL, PAGES, environment=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_error_page_shows_no_secret(pages: str, secrets: dict[str, str]) -> None:
    assert [name for name, secret in secrets.items() if secret in pages] == []


@pytest.mark.parametrize(
    "told", ["can&#x27;t be reached", "can't be reached", "127.0.0.1:1/none", "EMAIL_URL", "mail.example.org", "shown"]
)
def test_error_page_shows_details_that_are_no_secret(pages: str, told: str) -> None:
    assert told in pages
