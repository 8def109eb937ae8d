"""What history costs: the hour rollups by Spark beside DuckDB, in turns; and what one new hour costs after a day.

    make bench ARGS="analytics"             # 3 hours of 1000 streams: 10.8 million samples
    make bench ARGS="analytics --full"      # also the whole day: 86 million
    make bench ARGS="analytics --waits"     # in place of these, how long somebody waits for figures
    make bench ARGS="analytics --sizes"     # the first table of docs/operations/sizing.md in place of these

All of it is made up by `analytics.synthetic` in a folder of its own, which is removed.
"""

import argparse
import os
import tempfile
from pathlib import Path


def add_arguments(act: argparse.ArgumentParser) -> None:
    act.add_argument("--streams", type=int, default=1000, help="on air day and night (1000)")
    act.add_argument("--rounds", type=int, default=3, help="of the comparison, after one to warm up (3)")
    act.add_argument("--files", type=int, default=1, help="of each of 3 nodes an hour, 60 as nodes write them (1)")
    act.add_argument("--memory", default="2g", help="Spark's heap (2g)")
    act.add_argument("--full", action="store_true", help="also a day: that the time grows as the samples do")
    act.add_argument("--sizes", action="store_true", help="bytes, rows and CPU of an hour's history for each stream")
    act.add_argument("--waits", action="store_true", help="how long somebody waits for figures that are few or new")
    act.add_argument("--folder", type=Path, help="where the lake is made, about 60 bytes a sample")
    act.set_defaults(run=analytics)


def analytics(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="rtmpweb-bench-", dir=options.folder) as folder:
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "rtmpweb.settings",
            "RTMPWEB_DATA_DIR": folder,
            "RTMPWEB_SPARK_MEMORY": options.memory,
            "SPARK_MASTER": "local[2]",
        }
        import django

        django.setup()
        from django.conf import settings

        if Path(folder).resolve() != settings.DATA_DIR:
            raise RuntimeError(f"The settings were read too early: the database would be in {settings.DATA_DIR}.")
        from bench.analytics import history, sizes, waits  # Models: only now can they be imported.

        if options.sizes:
            return sizes.measure(options, Path(folder))
        if options.waits:
            return waits.measure(options, Path(folder))
        return history.measure(options, Path(folder))
