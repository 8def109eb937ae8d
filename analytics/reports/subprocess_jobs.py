"""Reports and their PDFs made by a process of its own, one at a time: a web process may be the one that carries media.

`python -m analytics.reports.subprocess_jobs report` makes a report of the wish on its standard input and prints its id;
`... pdf` prints the PDF of the document that stands there. What it logs is in the server's log.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analytics.periods import Period
    from analytics.reports.document import Document
    from analytics.scopes import Scope
    from ingest.services.audit import Actor

logger = logging.getLogger(__name__)

NICE = 10
WAIT_S = 10.0
"""How long one waits for another to end."""
LIMITS_S = {"pdf": 60, "report": 300}
BUSY = "Another report or PDF is being made. Try again in a minute."
FAILED = {
    "pdf": "The PDF could not be made: the server's log says why. Print the page instead.",
    "report": "The report could not be made: the server's log says why.",
}
TOO_LONG = {
    "pdf": f"The PDF took longer than {LIMITS_S['pdf']} s to make. Print the page instead.",
    "report": f"It took longer than {LIMITS_S['report']} s. Take a shorter period or fewer streams, or have it made by "
    "a schedule or by the command `report make`, which have no limit.",
}

_one_at_a_time = threading.Lock()


class NotMade(Exception):  # noqa: N818 - an answer to who asked.
    """The text says why, and what to do."""


def pdf(document: "Document") -> bytes:
    """The same as `analytics.reports.pdf.pdf`. Raises NotMade."""
    return _made("pdf", document)


def report(period: "Period", scope: "Scope", actor: "Actor") -> int:
    """The id of what `analytics.reports.builder.make` has made. Raises NotMade."""
    wish = {
        "period": [period.kind, period.since.isoformat(), period.until.isoformat(), period.zone.key],
        "scope": [scope.app, scope.name, scope.value],
        "actor": [actor.name, actor.user.pk if actor.user else None, actor.address],
    }
    return int(_made("report", wish))


def _made(job: str, given: object) -> bytes:
    if not _one_at_a_time.acquire(timeout=WAIT_S):
        raise NotMade(BUSY)
    try:
        return subprocess.run(
            [sys.executable, "-m", "analytics.reports.subprocess_jobs", job],
            input=json.dumps(given).encode(),
            stdout=subprocess.PIPE,
            check=True,
            timeout=LIMITS_S[job],
            cwd=Path(__file__).parents[2],
        ).stdout
    except subprocess.TimeoutExpired:
        raise NotMade(TOO_LONG[job]) from None
    except (subprocess.SubprocessError, OSError) as error:
        logger.error("A %s was not made: %s", job, error)
        raise NotMade(FAILED[job]) from None
    finally:
        _one_at_a_time.release()


def _pdf(document: Any) -> bytes:
    from analytics.reports.pdf import pdf

    return pdf(document)


def _report(wish: Any) -> bytes:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rtmpweb.settings")
    django.setup()
    from datetime import datetime

    from django.contrib.auth.models import User

    from analytics.periods import Period, zone_of
    from analytics.reports import builder
    from analytics.scopes import Scope
    from ingest.services.audit import Actor

    kind, since, until, zone = wish["period"]
    name, user, address = wish["actor"]
    made = builder.make(
        Period(kind, datetime.fromisoformat(since), datetime.fromisoformat(until), zone_of(zone)),
        Scope(*wish["scope"]),
        actor=Actor(name, User.objects.filter(pk=user).first(), address),
    )
    return str(made.pk).encode()


JOBS: dict[str, Callable[[Any], bytes]] = {"pdf": _pdf, "report": _report}
"""What is made of what stands on the standard input."""


def main(job: str) -> None:
    os.nice(NICE)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # A terminal's Ctrl-C ends it without a traceback.
    signal.alarm(LIMITS_S[job] + 5)  # Whoever was to end it may be gone.
    sys.stdout.buffer.write(JOBS[job](json.load(sys.stdin)))


if __name__ == "__main__":
    main(sys.argv[1])
