"""Twisted's reactor on a uvloop event loop. Import this before anything that imports `twisted.internet.reactor`.

Daphne installs a reactor on a loop of its own choosing unless there is one already.
"""

import uvloop
from twisted.internet import asyncioreactor

loop = uvloop.new_event_loop()
asyncioreactor.install(loop)

from twisted.internet import reactor  # noqa: E402

__all__ = ["loop", "reactor"]
