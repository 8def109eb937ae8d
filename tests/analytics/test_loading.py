"""Rollups of the lake become the database's rows: all of them, once, and only while the work is one's own."""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from analytics import locks, schemas
from analytics.loading import BATCH, load
from analytics.locks import LockLost
from analytics.models import FIGURES, METRIC_VERSION, Dimension, Grain, Partition, Rollup
from analytics.tables import HOUR, figures_file
from ingest.models import Application, Stream
from tests.analytics.rollups import USUAL, make_rollup
from tests.dashboard.conftest import client_of, make_user
from tests.ingest.faults import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.stores]

START = datetime(2026, 3, 29, 12, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000


def row(name: str, **figures: Any) -> dict[str, Any]:
    zero: dict[str, Any] = dict.fromkeys(FIGURES, 0)
    zero |= {"start_us": START_US, "dimension": "stream", "app": "live", "name": name, "value": f"live/{name}"}
    return zero | dict.fromkeys(("video_histogram", "refusals", "end_reasons"), ()) | figures


def write(lake: Path, *rows: dict[str, Any]) -> None:
    file = figures_file(lake, HOUR, START)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schemas.arrow(schemas.ROLLUPS)), file, row_group_size=BATCH)


def test_a_row_is_brought_as_it_is(tmp_path: Path) -> None:
    stream = Stream.objects.create(application=Application.objects.create(name="live"), name="demo")
    own: dict[str, Any] = {"stream": stream.pk, "live_ms": 5, "refusals": [("busy", 2)], "players_sketch": b"\x01\x00"}
    own |= {"peak_players": 3, "peak_at_us": START_US + 60_000_000}
    own["video_histogram"] = [{"bucket": -1, "count": 2}, {"bucket": 40, "count": 70_000}]
    write(tmp_path, row("demo", **own), row("gone", stream=stream.pk + 1))
    assert load(tmp_path, Grain.HOUR, START, lambda: True) == 2
    demo, gone = Rollup.objects.order_by("name")
    assert (demo.start, demo.value, demo.stream, demo.live_ms) == (START, "live/demo", stream, 5)
    assert (demo.refusals, demo.end_reasons, demo.metric_version) == ({"busy": 2}, {}, METRIC_VERSION)
    assert (demo.peak_at, gone.peak_at) == (START.replace(minute=1), None)
    assert bytes(demo.video_histogram) == struct.pack("<hIhI", -1, 2, 40, 70_000)
    assert bytes(demo.players_sketch) == b"\x01\x00"
    assert gone.stream is None, "a stream that was deleted keeps its history"


def test_a_stream_is_deleted_without_its_rollups_being_written_to() -> None:
    stream = Stream.objects.create(application=Application.objects.create(name="live"), name="demo")
    for hours_ago in range(3):
        make_rollup(hours_ago, "demo", stream=stream)
    with CaptureQueriesContext(connection) as queries:
        stream.delete()
    assert not any("analytics_rollup" in query["sql"] for query in queries)
    connection.check_constraints()
    viewer = client_of(make_user("viewer"))
    history = viewer.get("/analytics/?stream=live/demo&range=24h")
    assert history.context["history"].figures.samples == 3 * USUAL["samples"]
    assert viewer.get("/api/v1/rollups?stream=live/demo&grain=hour").json()["count"] == 3


def test_repeated_load_replaces_rows_and_removes_missing_ones(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(BATCH + 1)]
    write(tmp_path, *(row(name) for name in names))
    assert load(tmp_path, Grain.HOUR, START, lambda: True) == len(names)
    Rollup.objects.filter(name="s1").update(grain=Grain.DAY)  # Another grain's are left alone.
    write(tmp_path, row("s0", live_ms=7))
    assert load(tmp_path, Grain.HOUR, START, lambda: True) == 1
    assert set(Rollup.objects.values_list("grain", "name", "live_ms")) == {("hour", "s0", 7), ("day", "s1", 0)}


def test_hours_of_some_dimensions_stay_in_the_lake(tmp_path: Path, settings: Settings) -> None:
    partition = Partition.objects.create(grain=Grain.HOUR, start=START)

    def loaded(*dimensions: str) -> tuple[set[str], str]:
        settings.HOURS_IN_DATABASE = list(dimensions)
        count = load(tmp_path, Grain.HOUR, START, lambda: True)
        partition.refresh_from_db()
        found = set(Rollup.objects.values_list("dimension", flat=True))
        assert count == len(found)
        return found, partition.lake_only

    write(tmp_path, *(row("demo", dimension=str(dimension)) for dimension in Dimension))
    assert loaded(*Dimension.values) == (set(Dimension.values), "")
    assert loaded("app", "node") == ({"app", "node"}, "stream,key,encoder,broadcast"), "and leave the database"
    settings.HOURS_IN_DATABASE = ["stream", "app"]
    with pytest.raises(LockLost):
        load(tmp_path, Grain.HOUR, START, lambda: False)
    assert set(Rollup.objects.values_list("dimension", flat=True)) == {"app", "node"}, "nothing, once another has it"
    assert loaded("stream", "app")[0] == {"stream", "app"}, "or come back to it"
    make_rollup(start=START, grain=Grain.DAY, dimension=Dimension.KEY)
    loaded_day = load(tmp_path, Grain.DAY, START.replace(hour=0), lambda: True)
    assert (loaded_day, partition.lake_only) == (0, "key,encoder,node,broadcast"), "a day has no such note"


# What others see of it, and what is left when it goes wrong ---------------------------------

IN_EARNEST = pytest.mark.django_db(transaction=True)
"""Transactions of its own, as other connections see them."""


@contextmanager
def at_each_statement(deed: Callable[[str], None]) -> Iterator[None]:
    """Does it before and after each statement of this connection, of which it is told."""

    def execute(run: Callable[..., Any], sql: str, *rest: Any) -> Any:
        deed(sql)
        done = run(sql, *rest)
        deed(sql)
        return done

    with connection.execute_wrapper(execute):
        yield


@contextmanager
def reader() -> Iterator[Callable[[], tuple[Any, ...]]]:
    """What a connection of its own reads of the hour: at a stroke, its rows and what the ledger says of them."""
    query = """
        SELECT (SELECT lake_only FROM analytics_partition), dimension, name, live_ms FROM analytics_rollup
        WHERE grain = 'hour' ORDER BY dimension, name
    """
    other = connection.copy()

    def read() -> tuple[Any, ...]:
        with other.cursor() as cursor:
            cursor.execute(query)
            return tuple(cursor.fetchall())

    try:
        yield read
    finally:
        other.close()


@IN_EARNEST
def test_a_reader_sees_the_former_rows_until_it_has_the_new_ones(tmp_path: Path, settings: Settings) -> None:
    Partition.objects.create(grain=Grain.HOUR, start=START)
    write(tmp_path, row("a", live_ms=1), row("b", live_ms=1), row("a", dimension="key"))
    load(tmp_path, Grain.HOUR, START, lambda: True)
    write(tmp_path, row("a", live_ms=2), row("c", live_ms=2), row("a", dimension="key"))
    settings.HOURS_IN_DATABASE = ["stream"]
    seen: list[tuple[str, tuple[Any, ...]]] = []
    with reader() as read:
        with at_each_statement(lambda sql: seen.append((sql.split()[0], read()))):
            load(tmp_path, Grain.HOUR, START, lambda: True)
        seen.append(("", read()))
    former = (("", "key", "a", 0), ("", "stream", "a", 1), ("", "stream", "b", 1))
    others = "key,app,encoder,node,broadcast"
    new = ((others, "stream", "a", 2), (others, "stream", "c", 2))
    assert [state for state, _ in groupby(state for _, state in seen)] == [former, new]
    assert {statement for statement, state in seen if state == former} >= {"CREATE", "INSERT", "DELETE", "UPDATE"}


def breaks_off(lake: Path) -> None:
    """Its last rows can't be read, the first can."""
    write(lake, *(row(f"s{number}", live_ms=2) for number in range(3 * BATCH)))
    file = figures_file(lake, HOUR, START)
    last = pq.ParquetFile(file).metadata.row_group(2)
    with file.open("r+b") as opened:
        for number in range(last.num_columns):
            opened.seek(last.column(number).data_page_offset)
            opened.write(b"\xff" * 8)


def twice(lake: Path) -> None:
    write(lake, row("s0", live_ms=2), row("s1", live_ms=2), row("s1", live_ms=3))


def refused(lake: Path) -> None:
    """Fewer sessions than none."""
    write(lake, row("s0", live_ms=2), row("s1", live_ms=2, sessions=-1))


@IN_EARNEST
@pytest.mark.parametrize(
    ("wrong", "error"), [(breaks_off, OSError), (twice, IntegrityError), (refused, IntegrityError)]
)
def test_load_that_fails_midway_leaves_the_former_rows(
    tmp_path: Path, wrong: Callable[[Path], None], error: type[Exception]
) -> None:
    write(tmp_path, row("s0", live_ms=1), row("former"))
    load(tmp_path, Grain.HOUR, START, lambda: True)
    before = list(Rollup.objects.order_by("name").values())
    wrong(tmp_path)
    with pytest.raises(error):
        load(tmp_path, Grain.HOUR, START, lambda: True)
    assert list(Rollup.objects.order_by("name").values()) == before
    write(tmp_path, row("s0", live_ms=2))
    assert load(tmp_path, Grain.HOUR, START, lambda: True) == 1
    assert list(Rollup.objects.values_list("name", "live_ms")) == [("s0", 2)]


@IN_EARNEST
def test_an_error_at_any_statement_leaves_the_former_rows(tmp_path: Path) -> None:
    """The last of them deletes: the new rows stand beside the former ones then."""
    partition = Partition.objects.create(grain=Grain.HOUR, start=START, lake_only="as it was")
    make_rollup(start=START, name="former")
    before = list(Rollup.objects.values())
    write(tmp_path, row("new"))
    failed: set[str] = set()

    def fail(sql: str) -> None:
        """At each of load's once: the next attempt comes further."""
        if not sql.startswith("DROP") and sql not in failed:
            failed.add(sql)
            raise OperationalError

    for _ in range(20):
        try:
            with at_each_statement(fail):
                load(tmp_path, Grain.HOUR, START, lambda: True)
        except OperationalError:
            partition.refresh_from_db()
            assert (list(Rollup.objects.values()), partition.lake_only) == (before, "as it was")
        else:
            break
    assert any(sql.strip().startswith("DELETE FROM analytics_rollup") for sql in failed)
    assert list(Rollup.objects.values_list("name", flat=True)) == ["new"]


ODD = [
    "",
    " ",
    'it\'s "quoted"',
    "back\\slash",
    "\\",
    "\\N",
    "\\n \\t \\\\N",
    "\\.",
    "\\x41",
    "a\ttab",
    "a\nnew line",
    "a\r\nreturn",
    "\n\\.\n",
    "NULL",
    "%s %(name)s {name} ?",
    "\u00e9",
    "e\u0301",  # The same to read, and another text.
    "\u2028\ufeff\u202e",
    "\x01\x1f\x7f",
    "\U0001f3a5",
    "\U0001f3a5" * 255,
]


def test_odd_texts_are_brought_as_they_are(tmp_path: Path) -> None:
    """None of them is another's, and what has none is not empty."""

    def of(text: str, number: int) -> dict[str, Any]:
        return row(
            text,
            app=text[:100],
            value=f"{text[:100]}/{text}",
            unique_players=number or None,
            keyframe_interval_max=None,
            refusals=[(text, number)] if number else [],
            players_sketch=text.encode("utf-16-le") or None,
        )

    rows = [of(text, number) for number, text in enumerate(ODD)]
    write(tmp_path, *rows)
    for _ in range(2):  # They are found again, too.
        assert load(tmp_path, Grain.HOUR, START, lambda: True) == len(ODD)
        found = {one.name: one for one in Rollup.objects.all()}
        assert set(found) == set(ODD)
        for number, text in enumerate(ODD):
            one = found[text]
            assert (one.app, one.value) == (text[:100], f"{text[:100]}/{text}")
            assert (one.unique_players, one.keyframe_interval_max) == (number or None, None)
            assert one.refusals == ({text: number} if number else {})
            assert bytes(one.players_sketch) == text.encode("utf-16-le")
    write(tmp_path, *rows[::2])
    load(tmp_path, Grain.HOUR, START, lambda: True)
    assert set(Rollup.objects.values_list("name", flat=True)) == set(ODD[::2])


@IN_EARNEST
def test_text_with_nul_fails_the_load_of_its_hour_on_postgresql_only(tmp_path: Path) -> None:
    """Nodes write no NUL; SQLite takes it."""
    make_rollup(start=START, name="former")
    write(tmp_path, row("fine"), row("a\x00b"))
    if connection.vendor == "postgresql":
        with pytest.raises(DatabaseError, match="NUL"):
            load(tmp_path, Grain.HOUR, START, lambda: True)
        assert list(Rollup.objects.values_list("name", flat=True)) == ["former"]
    else:
        load(tmp_path, Grain.HOUR, START, lambda: True)
        assert set(Rollup.objects.values_list("name", flat=True)) == {"fine", "a\x00b"}


@IN_EARNEST
def test_concurrent_loads_of_an_hour_leave_the_complete_rows_of_one(tmp_path: Path) -> None:
    """Each takes the other for lost. Some of their rows are the same, some are one's own."""
    Partition.objects.create(grain=Grain.HOUR, start=START)
    every = {"one": range(300), "other": range(150, 500)}
    for turn in range(4):
        loaded: list[str] = []

        def load_own(who: str, turn: int = turn, loaded: list[str] = loaded) -> None:
            lake = tmp_path / f"{who}-{turn}"
            write(lake, *(row(f"s{number}", live_ms=len(who) + turn) for number in every[who]))
            mine = take_over()
            try:
                load(lake, Grain.HOUR, START, partial(mine.holds, START))
            except LockLost:
                return
            loaded.append(who)

        at_once(partial(load_own, "one"), partial(load_own, "other"))
        assert loaded
        found: Sequence[tuple[str, int]] = list(Rollup.objects.values_list("name", "live_ms"))
        (who,) = {who for who in every if (len(who) + turn) in dict(found).values()}
        assert who in loaded
        assert sorted(found) == sorted((f"s{number}", len(who) + turn) for number in every[who])


def take_over() -> locks.Lock:
    """The hour, from whoever has it."""
    Partition.objects.update(locked_until=timezone.now() - timedelta(seconds=1))
    return locks.take(None, Grain.HOUR, [START])
