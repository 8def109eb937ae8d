"""Static files, as both kinds of server ask for them."""

import os

import pytest
from django.contrib.staticfiles import finders
from django.http import HttpResponse
from django.test import AsyncClient, Client

from rtmpweb.middleware import StaticFilesMiddleware

PATH = "/static/admin/css/base.css"


def content() -> bytes:
    found = finders.find("admin/css/base.css")
    assert isinstance(found, str)
    with open(found, "rb") as file:
        return file.read()


def test_a_file() -> None:
    answer = Client().get(PATH)
    assert answer.status_code == 200
    assert answer.content == content()
    assert answer["Content-Type"].startswith("text/css")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in answer


@pytest.mark.parametrize(
    ("headers", "status", "start", "end"),
    [({}, 200, 0, None), ({"range": "bytes=10-19"}, 206, 10, 20)],
)
async def test_under_asgi(headers: dict[str, str], status: int, start: int, end: int | None) -> None:
    answer = await AsyncClient().get(PATH, headers=headers)
    assert answer.status_code == status
    assert answer.content == content()[start:end]
    assert int(answer["Content-Length"]) == len(answer.content)


async def test_a_copy_that_is_still_good() -> None:
    first = await AsyncClient().get(PATH)
    again = await AsyncClient().get(PATH, headers={"if-none-match": first["ETag"]})
    assert again.status_code == 304
    assert again.content == b""


async def test_the_head_alone() -> None:
    answer = await AsyncClient().head(PATH)
    assert answer.status_code == 200
    assert answer.content == b""
    assert int(answer["Content-Length"]) == len(content())


async def test_files_can_only_be_read() -> None:
    answer = await AsyncClient().post(PATH)
    assert answer.status_code == 405


def test_all_are_small() -> None:
    served = StaticFilesMiddleware(lambda request: HttpResponse()).files
    assert PATH in served
    sizes = {path: os.stat(found.alternatives[-1][1]).st_size for path, found in served.items()}
    assert not [path for path, size in sizes.items() if size > 400 * 1024 or path.endswith(".map")]


async def test_what_is_not_there() -> None:
    for path in ("/static/nothing.css", "/static/../manage.py", "/static/admin/css/"):
        assert (await AsyncClient().get(path)).status_code == 404


def test_the_icon_that_browsers_ask_for_by_themselves() -> None:
    answer = Client().get("/favicon.ico", follow=True)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "image/svg+xml"
