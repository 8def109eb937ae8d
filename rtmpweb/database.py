"""What is wrong with the database, in a sentence for an operator."""

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor


def explain(error: DatabaseError) -> str:
    """Why a command's query failed, and what to do. Passwords are in no database driver's messages."""
    try:
        executor = MigrationExecutor(connection)
        waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as found:
        return f"The database does not answer: {found}. Check that it runs, and what DATABASE_URL says."
    if waiting:
        return (
            f"The database lacks {len(waiting)} migrations of this version: run `manage.py migrate`. "
            "`make run` does it at each start; RTMPWEB_DATA_DIR and DATABASE_URL say which database is meant."
        )
    return f"The database refused: {error}."
