"""What is wrong with the database, in a sentence for an operator."""

from django.db import DatabaseError

from ingest import migrated


def explain(error: DatabaseError) -> str:
    """Why a command's query failed, and what to do. Passwords are in no database driver's messages."""
    try:
        lacking = migrated.missing()
    except DatabaseError as found:
        return f"The database does not answer: {found}. Check that it runs, and what DATABASE_URL says."
    return lacking or f"The database refused: {error}."
