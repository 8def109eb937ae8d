"""Sketches of players that Spark wrote, united by us."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from analytics.metrics import SKETCH_BITS
from analytics.rollups import united_sketches

pytestmark = [pytest.mark.spark, pytest.mark.slow("Spark plans and computes")]


@pytest.mark.parametrize("players", [0, 3, 400, 60_000])
def test_spark_and_we_come_to_the_same_number(spark: SparkSession, players: int) -> None:
    """Of hours with players of their own and common ones, and of one that nobody watched."""
    seen = spark.range(players).selectExpr("id % 7 AS hour", "sha2(cast(id * (id % 3) AS string), 256) AS player")
    seen = seen.union(spark.sql("SELECT 7, NULL"))
    hours = seen.groupBy("hour").agg(expr(f"hll_sketch_agg(player, {SKETCH_BITS}) AS sketch"))
    (theirs,) = hours.selectExpr("hll_sketch_estimate(hll_union_agg(sketch)) AS players").collect()
    ours = united_sketches(bytes(row.sketch) for row in hours.collect())
    assert ours == theirs.players
    distinct = len({number * (number % 3) for number in range(players)})
    assert ours == pytest.approx(distinct, rel=4 * 0.016 if players > 1000 else 0.005)
