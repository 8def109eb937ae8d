"""What to do about a run that failed, by its error's code."""

from analytics.models import AnalyticsRun

Code = AnalyticsRun.ErrorCode

ADVICE: dict[str, str] = {
    Code.JAVA_MISSING: "Install Java where the analytics worker runs, or set JAVA_HOME, then start it again.",
    Code.QUEUE: "Check that Redis and the analytics worker run. It is asked for again each minute.",
    Code.LOST: "If nobody stopped it, check the memory of the analytics worker's machine.",
    Code.TIME_LIMIT: "Give Spark more cores, or a cluster; the next run takes up the rest.",
    Code.FAILED: "Read its log (Jobs) and mend what it says, then retry. The next run takes up the rest.",
}


def advice(code: str) -> str:
    return ADVICE.get(code, "")
