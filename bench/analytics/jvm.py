"""Spark's Java process: its memory."""

import os
from pathlib import Path

from pyspark.sql import SparkSession

from tests.rtmpweb.processes import command, descendants

MB = 1e6


def pid() -> int:
    """Of the one that this process has started."""
    [found] = [child for child in descendants(os.getpid()) if "org.apache.spark.deploy.SparkSubmit" in command(child)]
    return found


def peak_rss_mb() -> float:
    """The most that was resident since it started."""
    status = Path(f"/proc/{pid()}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024 / MB


def heap_mb(session: SparkSession) -> tuple[float, float]:
    """The most that was used of the heap, garbage included, and how large it may get."""
    factory = session._jvm.java.lang.management.ManagementFactory  # type: ignore[union-attr]
    pools = [pool for pool in factory.getMemoryPoolMXBeans() if str(pool.getType()) == "Heap memory"]
    used = sum(pool.getPeakUsage().getUsed() for pool in pools)
    return used / MB, factory.getMemoryMXBean().getHeapMemoryUsage().getMax() / MB
