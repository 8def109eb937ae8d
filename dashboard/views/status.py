"""Whether this installation works, for load balancers and alarms: open to anyone, so it names nothing."""

import logging

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.exceptions import RedisError

from ingest.livestore import get_livestore

logger = logging.getLogger(__name__)


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200 {"status": "ok"} when the database answers and a media node ticks; 503 "degraded" with what is wrong."""
    database, nodes = _database_answers(), _ticking_nodes()
    fine = database and nodes > 0
    body = {
        "status": "ok" if fine else "degraded",
        "database": "ok" if database else "unreachable",
        "nodes": nodes,
    }
    return JsonResponse(body, status=200 if fine else 503)


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
    except DatabaseError as error:
        logger.warning("Health: the database does not answer: %s", type(error).__name__)
        return False
    return True


def _ticking_nodes() -> int:
    try:
        return len(get_livestore().read().nodes)
    except RedisError as error:
        logger.warning("Health: the live store does not answer: %s", type(error).__name__)
        return 0
