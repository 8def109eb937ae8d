"""What an hour hands on to the next one."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics import ledger
from analytics.jobs.computing import compute_hours
from tests.analytics.lakes import HOUR_US, broadcast, fill
from tests.ingest.telemetry.records import NOON

pytestmark = [pytest.mark.spark, pytest.mark.django_db]


def test_an_hour_at_whose_end_nothing_is_on_air_hands_on_as_much_as_none(spark: SparkSession, lake: Path) -> None:
    fill(lake, list(broadcast("demo", "early", seconds=5, start_us=NOON)))
    fill(lake, list(broadcast("demo", "late", seconds=5, start_us=NOON + 2 * HOUR_US - 5_000_000)))
    early, late = ledger.scan(lake).values()
    tails = compute_hours(spark, lake, [early.input, late.input], lake.parent / "out")
    assert tails[early.start].tail == "" == ledger.tail_before(early.start), "no hour is made anew on its account"
    assert tails[late.start].tail
