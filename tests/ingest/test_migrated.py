"""What the log says of a database that was not migrated."""

import pytest
from django.db import DatabaseError, connection

from ingest import migrated

pytestmark = pytest.mark.both_forms


@pytest.mark.parametrize(
    ("statement", "lacks"),
    [
        ("SELECT 1 FROM there_is_none", True),
        ("SELECT there_is_none FROM ingest_node", True),
        ("INSERT INTO ingest_node (there_is_none) VALUES (1)", True),
        ("SELECT FROM WHERE", False),
    ],
)
@pytest.mark.django_db
def test_a_missing_table_or_column_is_told_with_the_act(statement: str, lacks: bool) -> None:
    with pytest.raises(DatabaseError) as raised, connection.cursor() as cursor:
        cursor.execute(statement)
    assert migrated.lacks_tables(raised.value) is lacks
    said = migrated.reason(raised.value)
    assert said.startswith(f"{type(raised.value).__name__}: ")
    assert ("run `manage.py migrate`" in said) is lacks
    assert "\n" not in said


@pytest.mark.django_db
def test_a_migrated_database_lacks_nothing() -> None:
    assert migrated.missing() == ""
