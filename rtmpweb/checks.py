"""What is wrong with the installation as a whole, in a sentence for an operator: settings, folders, the database."""

import os
import re
from collections.abc import Iterator

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags
from django.core.checks import Warning as CheckWarning
from django.core.signals import request_finished
from django.db import DatabaseError, connections

from analytics.java import JavaMissing, find_java
from ingest.checks import check
from ingest.models import Node
from ingest.services import data_folder, database, nodes, own_redis

LOOPBACK = {"127.0.0.1", "::1", "localhost"}

SECRETS = ("RTMPWEB_SECRET_KEY", "RTMPWEB_KEY_PEPPER")


@check(
    id="rtmpweb.W001",
    hint="Unset the one that is not meant. SPARK_REMOTE is Spark Connect (sc://), SPARK_MASTER a master (spark://).",
    deploy=False,
)
def spark() -> Iterator[str]:
    if settings.SPARK_MASTER and settings.SPARK_REMOTE:
        yield "SPARK_MASTER and SPARK_REMOTE are both set: SPARK_MASTER has no effect."


# Both or neither: Redis and a database server are what several processes share.
@check(
    id="rtmpweb.W002",
    hint="Set DATABASE_URL to a PostgreSQL server, or unset REDIS_URL and run `serve` alone.",
    deploy=False,
)
def redis_alone() -> Iterator[str]:
    if own_redis.is_apart() and not settings.DATABASE_URL:
        yield "REDIS_URL is set, DATABASE_URL is not: several processes would share an SQLite file."


@check(
    id="rtmpweb.W003",
    hint="Set REDIS_URL where the parts run apart: without it pages show nothing live.",
    deploy=False,
)
def database_alone() -> Iterator[str]:
    if settings.DATABASE_URL and not settings.REDIS_URL:
        yield "DATABASE_URL is set, REDIS_URL is not: other processes than `serve` can't work together."


@check(
    id="rtmpweb.E001",
    hint="Give this process's user the right to write there, or set RTMPWEB_LAKE to another folder.",
)
def lake() -> Iterator[str]:
    """The nearest folder of the lake's path that is there must let files be made."""
    folder = settings.LAKE_DIR
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        yield f"Telemetry can't be written to {settings.LAKE_DIR} (RTMPWEB_LAKE): {folder} does not let this user."


@check(
    id="rtmpweb.W004",
    hint="Set RTMPWEB_LAKE to a folder that all of them share; on one machine, any outside RTMPWEB_DATA_DIR.",
)
def shared_lake() -> Iterator[str]:
    if own_redis.is_apart() and settings.LAKE_DIR.is_relative_to(settings.DATA_DIR):
        yield "The lake is in this process's own data folder: nodes and Spark workers elsewhere don't see it."


@check(Tags.security)
def shared_secrets() -> Iterator[CheckMessage]:
    """With a database server there are other processes, which would make secrets of their own."""
    for name in SECRETS:
        if settings.DATABASE_URL and not os.environ.get(name, "").strip():
            yield Error(
                f"{name} is not set: this process keeps one in its data folder, which others don't have.",
                hint=f"Set {name} to the same long random text in every process. The one in use is in "
                f"{settings.DATA_DIR / name.lower()}.",
                id="rtmpweb.E002",
            )


@check(
    Tags.security,
    id="rtmpweb.W011",
    hint="Give it to this process's user and close it (chmod 700), or set RTMPWEB_DATA_DIR to another folder.",
)
def private_data_folder() -> Iterator[str]:
    """One that could not be closed to others, as each process does with its own."""
    if data_folder.is_open(settings.DATA_DIR):
        yield f"Other users of this machine may look into the data folder, {settings.DATA_DIR}."


@check(Tags.security, id="rtmpweb.W005", hint="Name the hosts under which it is reached.")
def hosts() -> Iterator[str]:
    if "*" in settings.ALLOWED_HOSTS:
        yield "RTMPWEB_ALLOWED_HOSTS is '*': the dashboard answers under any name, as an attacker's page may use."


@check(
    Tags.security,
    id="rtmpweb.W006",
    hint="Put a proxy that speaks TLS before it and set RTMPWEB_BEHIND_TLS=yes, or listen on 127.0.0.1.",
)
def open_http() -> Iterator[str]:
    """Django's own warnings of this are silenced where it is off (see the settings)."""
    address = settings.HTTP_ADDRESS
    if address is not None and address[0] not in LOOPBACK and not settings.BEHIND_TLS:
        yield "The dashboard speaks plain HTTP to other machines: passwords and tokens can be read on the way."


@check(
    Tags.security,
    id="rtmpweb.W009",
    hint="Set RTMPWEB_TRUSTED_PROXIES to the addresses by which the proxy comes.",
)
def proxies() -> Iterator[str]:
    if settings.BEHIND_TLS and not settings.TRUSTED_PROXIES:
        yield (
            "RTMPWEB_BEHIND_TLS says that there is a proxy, but nothing says which: all who log in by it are one "
            "address, which has to wait after anybody's wrong passwords."
        )


@check(Tags.security, id="rtmpweb.W010", hint="Set RTMPWEB_AUTH_URL and RTMPWEB_AUTH_SECRET, or neither.", deploy=False)
def authorisation() -> Iterator[str]:
    if bool(settings.AUTH_URL) != bool(settings.AUTH_SECRET):
        unset = "RTMPWEB_AUTH_SECRET" if settings.AUTH_URL else "RTMPWEB_AUTH_URL"
        yield f"{unset} is not set: applications that have the authorisation service asked let nobody in."


@check()
def java() -> Iterator[CheckMessage]:
    try:
        if not settings.SPARK_REMOTE:
            find_java()
    except JavaMissing as error:
        yield CheckWarning("Analytics can't run on this machine.", hint=str(error), id="rtmpweb.W007")


@check(
    Tags.database,
    id="rtmpweb.W008",
    hint="Give each node a name of its own that stays: a second one of a name doesn't start.",
)
def node_names() -> Iterator[str]:
    if settings.NODE_NAME:
        return
    workers = re.compile(rf"{re.escape(nodes.own_name())}-\d+")  # Of one host: they have names of their own.
    names = list(Node.objects.filter(stopped_at__isnull=True).values_list("name", flat=True))
    if len({workers.sub("", name) if workers.fullmatch(name) else name for name in names}) > 1:
        yield (
            f"There are {len(names)} media nodes ({', '.join(names[:5])}), and this process has no RTMPWEB_NODE: it "
            "would take its host's name."
        )


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


def explain_database_error(error: DatabaseError) -> str:
    """Why a command's query failed, and what to do. Passwords are in no database driver's messages."""
    if known := database.sqlite_advice(error):
        return known
    try:
        differs = database.version_difference()
    except DatabaseError as found:
        return (
            database.sqlite_advice(found)
            or f"The database does not answer: {found}. Check that it runs, and what DATABASE_URL says."
        )
    if not differs and (cause := database.write_failure_cause(error)) is not database.OTHER_CAUSE:
        return f"The database takes no writes. {cause.why} {cause.advice}"
    return differs or f"The database refused: {error}."
