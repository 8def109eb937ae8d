"""The database as the web application has it, and what is wrong with it in a sentence for an operator."""

from django.core.signals import request_finished
from django.db import DatabaseError, connections

from ingest import migrated, readonly, sqlite


def close_after_requests() -> None:
    """From now on a request's connection goes with it.

    Under ASGI each request has a thread of its own, and Django a connection for each thread: one that was kept open
    would never be used again, nor closed. Other threads keep theirs for CONN_MAX_AGE.
    """
    request_finished.connect(_close)


def _close(**_: object) -> None:
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def explain(error: DatabaseError) -> str:
    """Why a command's query failed, and what to do. Passwords are in no database driver's messages."""
    if known := sqlite.advice(error):
        return known
    try:
        differs = migrated.difference()
    except DatabaseError as found:
        return (
            sqlite.advice(found)
            or f"The database does not answer: {found}. Check that it runs, and what DATABASE_URL says."
        )
    if not differs and (cause := readonly.cause(error)) is not readonly.OTHER:
        return f"The database takes no writes. {cause.why} {cause.act}"
    return differs or f"The database refused: {error}."
