"""What ends a run before its time, and what went wrong in words."""

from django.db import DatabaseError

from analytics.models import AnalyticsRun

FULL = "No space left on device"
FULL_DATABASE = "database or disk is full"  # SQLite's words.
CAUSE = "Caused by: "
MOST_WORDS = 500


class Stopped(Exception):  # noqa: N818
    """The run can't go on, whatever it would compute next."""

    def __init__(self, code: AnalyticsRun.ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class SparkGone(Exception):  # noqa: N818
    """Spark's JVM was lost over the same work again."""


def everywhere(error: BaseException) -> Stopped | None:
    """Stopped, where an error would hit the next hour as well."""
    told = str(error)
    if FULL in told or FULL_DATABASE in told:
        text = f"{FULL}. Free some where the lake, the database and Spark's temporary files (RTMPWEB_DATA_DIR) are."
        return Stopped(AnalyticsRun.ErrorCode.FAILED, text)
    if isinstance(error, DatabaseError):
        return Stopped(AnalyticsRun.ErrorCode.FAILED, f"The database: {words(error)}")
    return None


def words(error: BaseException) -> str:
    """One line: what it was at the root, as far as it says. Java's errors are as long as their stack."""
    lines = str(error).strip().splitlines() or ["no description"]
    causes = [line.partition(CAUSE)[2] for line in lines if line.startswith(CAUSE)]
    return f"{type(error).__name__}: {causes[-1] if causes else lines[0]}"[:MOST_WORDS]
