"""Persistent shared objects: read when a client begins to use one, written when they have changed."""

import asyncio
import logging
from functools import partial

from django.db import Error as AnyDatabaseError

from ingest import clock
from ingest.consumers import decisions
from ingest.consumers.base import ControlConsumer, in_task
from ingest.contracts import ObjectFlush, ObjectLoad, ObjectLoaded
from ingest.log_records import Bound, more
from ingest.services import shared_objects
from ingest.services.history_writer import get_history
from ingest.services.shared_objects import ObjectRow

logger = logging.getLogger(__name__)

NOT_CREATED = "SharedObject.ObjectCreationFailed"

FAILURES = Bound(1)
"""Lines a second about objects that could not be read: anybody may ask for some."""


class Objects(ControlConsumer):
    async def rtmp_object_flush(self, event: ObjectFlush) -> None:
        """It is written however long that takes, and whatever becomes of the connection."""
        row = ObjectRow(self.scope["app"], event["name"], event["version"], clock.utc_now(), event["changes"])
        get_history().put(row)

    @in_task
    async def rtmp_object_load(self, event: ObjectLoad) -> None:
        app, name = self.scope["app"], event["name"]
        unwritten = get_history().unwritten_object(app, name)  # Before the database is read: it may be written then.
        read = partial(shared_objects.load_object, app=app, name=name, unwritten=unwritten)
        refused: str | None = NOT_CREATED
        version, data = 0, dict[str, bytes]()
        try:
            deadline = asyncio.get_running_loop().time() + decisions.LIMIT_S
            version, data = await decisions.decide(read, executor=decisions.READ, deadline=deadline)
        except shared_objects.NoRoomError:
            _log(
                app,
                name,
                f"the application has {shared_objects.MOST_OF_APPLICATION} of them, or the name can't be kept",
            )
        except decisions.TooSlow:
            _log(app, name, "the database did not answer in time")
        except AnyDatabaseError as error:
            _log(app, name, f"the database failed: {type(error).__name__}")
        except Exception as error:  # Ours, or what is kept can't be read.
            _log(app, name, f"it can't be read: {type(error).__name__}", error)
        else:
            refused = None
        answer: ObjectLoaded = {
            "type": "rtmp.object.loaded",
            "request_id": event["request_id"],
            "version": version,
            "data": data,
            "refused": refused,
        }
        await self.send(answer)


def _log(app: str, name: str, why: str, error: Exception | None = None) -> None:
    left_out = FAILURES.take()
    if left_out is not None:
        logger.error("The shared object %r of %s was refused: %s%s.", name, app, why, more(left_out), exc_info=error)
