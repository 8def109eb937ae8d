"""The API's description: whole, true, for who may view, and shown without a foreign script."""

import re
from typing import Any

from django.test import Client

from ingest.services.roles import ABILITIES
from tests.dashboard.conftest import api_token, client_of, make_user
from tests.dashboard.test_api import METRICS, SESSION, STREAM


def test_the_description_names_every_path_and_its_references_resolve(client: Client, db: None) -> None:
    schema = client.get("/api/v1/openapi.json", headers=api_token()).json()
    assert schema["openapi"].startswith("3.")
    assert set(schema["paths"]) >= {
        "/api/v1/streams",
        "/api/v1/streams/{app}/{name}",
        "/api/v1/streams/{app}/{name}/kick",
        "/api/v1/sessions",
        "/api/v1/sessions/{session_id}",
        "/api/v1/sessions/{session_id}/events",
        "/api/v1/attempts",
    }
    operations = [operation for path in schema["paths"].values() for operation in path.values()]
    assert all(operation["security"] for operation in operations)
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            named = {item["name"] for item in operation["parameters"] if item["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))
    for reference in references(schema):
        found = schema
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
    fields = schema["components"]["schemas"]
    assert fields["SessionOut"]["properties"].keys() >= SESSION
    assert fields["StreamOut"]["properties"].keys() >= STREAM | METRICS


def test_the_description_says_of_each_operation_who_may_use_it(viewer: Client) -> None:
    schema = viewer.get("/api/v1/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            about = f"{method} {path}"
            assert set(operation["x-roles"]) == {
                role for role in ABILITIES if operation["x-ability"] in ABILITIES[role]
            }, about
            assert f"`{operation['x-ability']}`" in operation["description"], about
            assert not operation["description"].startswith("Needs the ability"), f"{about} has no docstring"
            assert {"401", "403", "503"} <= operation["responses"].keys(), about
    assert schema["paths"]["/api/v1/streams/{app}/{name}/kick"]["post"]["x-roles"] == ["operator", "admin"]


def test_the_description_is_for_who_may_view(client: Client, viewer: Client) -> None:
    assert client.get("/api/v1/docs").status_code == 302
    assert client.get("/api/v1/openapi.json").status_code == 401
    assert client.get("/api/v1/openapi.json", headers={"Authorization": "Bearer rt_nonsense"}).status_code == 401
    for path in ("/api/v1/docs", "/api/v1/openapi.json"):
        assert client_of(make_user(name=path)).get(path).status_code == 403


def test_the_docs_page_shows_every_operation_and_shape(viewer: Client) -> None:
    schema = viewer.get("/api/v1/openapi.json").json()
    page = viewer.get("/api/v1/docs").content.decode()
    for path in schema["paths"]:
        assert f"<code>{path}</code>" in page
    for shape in schema["components"]["schemas"]:
        assert f'id="shape-{shape}"' in page
    assert set(re.findall(r'href="#(shape-[^"]+)"', page)) <= set(re.findall(r'id="(shape-[^"]+)"', page))


def test_code_is_set_as_code(viewer: Client) -> None:
    page = viewer.get("/api/v1/docs").content.decode()
    assert "`" not in page.partition("<main")[2].partition("</main>")[0]
    assert "<code>Authorization: Bearer" in page


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references(value)]
    if isinstance(node, list):
        return [found for value in node for found in references(value)]
    return []


def test_the_docs_page_runs_no_inline_script(viewer: Client) -> None:
    answer = viewer.get("/api/v1/docs")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "'unsafe-inline'" not in answer["Content-Security-Policy"]
    for tag in page.split("<script")[1:]:
        attributes = tag.split(">")[0]
        assert "src=" in attributes or "application/json" in attributes
    assert "<style" not in page
    assert "style=" not in page
