"""What each process of an installation looks at before it serves, and why it may not: the database, and the secrets."""

import logging
from collections.abc import Mapping
from contextlib import suppress

from django.conf import settings
from django.db import DatabaseError, models, transaction
from django.utils.crypto import salted_hmac

from ingest import command_line
from ingest.models import Installation, StreamKey
from ingest.services import audit, data_folder, database
from ingest.services.keys import keyed_hash

logger = logging.getLogger(__name__)

KEPT: list[type[models.Model]] = [StreamKey]
"""What is void under another pepper. The other applications add theirs."""

_checked = False
"""Whether this process has found all in order."""


class StartError(Exception):
    """This process must not serve. The message is for the operator: what is in the way, and what to do."""


def check() -> None:
    """Whether the database is as this version needs it, and its keys are of this process's pepper. Raises StartError.

    DatabaseError: it does not answer, which is no hindrance for who can wait.
    """
    global _checked
    try:
        if words := database.version_difference():
            raise StartError(words)
        confirm_pepper()
    except DatabaseError as error:
        if words := database.sqlite_advice(error):
            raise StartError(words) from error
        raise
    _checked = True
    with suppress(OSError):
        if data_folder.is_open(settings.DATA_DIR):
            logger.warning(
                "Other users of this machine may look into the data folder, %s: it is not the server's alone. Give the "
                "server a folder of its own (RTMPWEB_DATA_DIR), or close this one (chmod 700).",
                settings.DATA_DIR,
            )


def check_once() -> None:
    """`check`, for a process that could not do so when it started."""
    if not _checked:
        check()


# --- The secrets ---


def confirm_pepper() -> None:
    """Raises StartError where keys and tokens are kept under another pepper than this process has.

    The first process of all notes by what its own is known. One that had to make it, in an installation that has keys
    already, has found that it is lost: what it made goes with it, so that whoever comes next finds so as well.
    """
    row = Installation.objects.filter(pk=Installation.ONE).first()
    if row is None or row.pepper_mark != _pepper_mark():
        if void := _void(row):
            words, file = _lost(void), settings.KEY_PEPPER_FILE
            if file is not None and settings.KEY_PEPPER_IS_NEW:
                file.unlink(missing_ok=True)
            raise StartError(words)
        _note()
    elif row.secret_mark != _secret_mark():
        logger.warning(
            "RTMPWEB_SECRET_KEY is another than at the last start: everybody has to log in again, and play links and "
            "tokens that were given out are void. If that was not meant, put the former one back."
        )
        _note()


def accept_pepper(actor: audit.Actor) -> dict[str, int]:
    """This process's pepper is the installation's from now on. Returns how many of each kind are void by that."""
    with transaction.atomic():
        void = _void(Installation.objects.filter(pk=Installation.ONE).first())
        _note()
        if void:
            audit.record(actor, "pepper.accept", "the installation", void=void)
    return void


def _void(row: Installation | None) -> dict[str, int]:
    """What was made under another pepper than this process's: how many of each kind, by what they are called."""
    fits = row.pepper_mark == _pepper_mark() if row is not None else not settings.KEY_PEPPER_IS_NEW
    if fits:
        return {}
    counts = [(model._meta, model._default_manager.count()) for model in KEPT]
    return {str(kind.verbose_name_plural if count > 1 else kind.verbose_name): count for kind, count in counts if count}


def in_words(counts: Mapping[str, int]) -> str:
    """Such as: 12 stream keys and 1 API token."""
    return " and ".join(f"{count} {name}" for name, count in counts.items())


def _note() -> None:
    marks = {"pepper_mark": _pepper_mark(), "secret_mark": _secret_mark()}
    Installation.objects.update_or_create(pk=Installation.ONE, defaults=marks)


def _pepper_mark() -> str:
    return keyed_hash("installation", "pepper")


def _secret_mark() -> str:
    return salted_hmac("ingest.installation", "secret key", algorithm="sha256").hexdigest()


def _lost(void: dict[str, int]) -> str:
    file = settings.KEY_PEPPER_FILE
    if file is None:
        found, back = "RTMPWEB_KEY_PEPPER is another than it was", "Set it to what it was"
    elif settings.KEY_PEPPER_IS_NEW:
        found, back = f"The pepper is lost: {file} is not there", "Put the file back"
    else:
        found, back = f"The pepper in {file} is another than it was", "Put the former file back"
    return (
        f"{found}, and this database has {in_words(void)} from under the former one. {back}: it belongs to a backup of "
        f"the data folder. To go on without it: `{command_line.here('pepper accept')}`; these are void then and have "
        "to be made anew."
    )
