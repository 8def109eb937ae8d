"""Twisted's reactor on a uvloop event loop. Import this before anything that imports `twisted.internet.reactor`.

Daphne installs a reactor on a loop of its own choosing unless there is one already.
"""

from typing import Any

import uvloop
from twisted.internet import asyncioreactor

loop = uvloop.new_event_loop()
asyncioreactor.install(loop)  # type: ignore[no-untyped-call]

from twisted.internet import reactor as installed  # noqa: E402

reactor: Any = installed  # Its type is declared as a module.

__all__ = ["loop", "reactor"]
