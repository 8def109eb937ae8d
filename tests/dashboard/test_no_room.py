"""A PostgreSQL, a server of its own, that refuses connections: for want of room, or for something else."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import OperationalError

from dashboard.system.probes import has_no_room
from tests import commands
from tests.postgres_server import PostgresServer

CONNECT = """
from django.db import OperationalError, connection
from dashboard.system.probes import has_no_room

try:
    connection.ensure_connection()
except OperationalError as error:
    print(has_no_room(error))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    made = PostgresServer(tmp_path_factory.mktemp("postgres"))
    try:
        made.start()
        with psycopg.connect(made.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE narrow LOGIN CONNECTION LIMIT 0")
            connection.execute("CREATE ROLE shut NOLOGIN")
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize(
    ("role", "database", "expected"),
    [("narrow", "postgres", "True"), ("shut", "postgres", "False"), ("tester", "nowhere", "False")],
    ids=["a limit", "a role", "a name"],
)
def test_only_want_of_room_is_called_so(
    server: PostgresServer, tmp_path: Path, role: str, database: str, expected: str
) -> None:
    url = f"postgresql://{role}@127.0.0.1:{server.port}/{database}"
    told = commands.run(
        ["shell", "--no-imports", "-c", CONNECT], {"RTMPWEB_DATA_DIR": str(tmp_path), "DATABASE_URL": url}, 60
    )
    assert told.stdout.split() == [expected], told.stderr


@pytest.mark.parametrize(
    "said",
    [
        "FATAL:  sorry, too many clients already",
        "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
    ],
)
def test_a_server_without_a_place_is_known_by_its_words(said: str) -> None:
    """Which the driver gives without a code, as there was no connection."""
    assert has_no_room(OperationalError(f'connection to server at "127.0.0.1", port 5432 failed: {said}'))
