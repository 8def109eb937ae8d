"""What each process of an installation looks at before it serves, and why it may not."""

from django.db import DatabaseError

from ingest import migrated, private, sqlite


class StartError(Exception):
    """This process must not serve. The message is for the operator: what is in the way, and what to do."""


def start() -> None:
    """What a process does first of all, that migrates nothing itself: `check`, and its files are this user's alone."""
    private.restrict_new_files()
    check()


def check() -> None:
    """Whether the database is as this version needs it. Raises StartError.

    DatabaseError: it does not answer, which is no hindrance for who can wait.
    """
    try:
        if lacking := migrated.missing():
            raise StartError(lacking)
    except DatabaseError as error:
        if known := sqlite.advice(error):
            raise StartError(known) from error
        raise
