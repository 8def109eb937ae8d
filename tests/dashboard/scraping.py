"""A node's figures, and what Prometheus would read of them."""

from typing import Any

from asgiref.sync import async_to_sync
from django.test import Client
from prometheus_client import parser
from prometheus_client.core import Metric

from ingest.contracts import StreamSnapshot
from ingest.live_store import get_livestore
from tests.dashboard.conftest import api_token, figures


def put(*streams: StreamSnapshot, node: str = "n1", **fields: Any) -> None:
    records = {"history_waiting": 3, "history_dropped": 2, "telemetry_dropped": 1, "telemetry_failing_since": None}
    told: Any = {**figures(node), "records": records, **fields}
    async_to_sync(get_livestore().put_node)(told, streams)


def scrape(client: Client, **headers: str) -> dict[str, Metric]:
    answer = client.get("/metrics", headers=headers or api_token())
    assert answer.status_code == 200, answer.content
    return {family.name: family for family in parser.text_string_to_metric_families(answer.content.decode())}


def values(families: dict[str, Metric], name: str) -> dict[tuple[str, ...], float]:
    """By the values of the labels, in the order of the labels' names: as they stand in the text."""
    return {tuple(value for _, value in sorted(each.labels.items())): each.value for each in families[name].samples}
