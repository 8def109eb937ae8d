"""Copy the few front-end files that pages load from node_modules to `static/vendor/`: `python -m dashboard.vendor`.

`npm ci --ignore-scripts` must have run. What is copied is not committed.
"""

import gzip
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(__file__).resolve().parent / "static" / "vendor"

FILES = (
    "hls.js/dist/hls.min.js",
    "mpegts.js/dist/mpegts.js",
    "uplot/dist/uPlot.iife.min.js",
    "uplot/dist/uPlot.min.css",
)
"""Paths in node_modules; each keeps its own name in the target folder."""


def copy(modules: Path = ROOT / "node_modules", target: Path = TARGET) -> list[Path]:
    """Copy every file that is newer than its copy or has none, and pack it beside: browsers are sent that, a third of
    it. Returns what was copied. Raises FileNotFoundError.
    """
    target.mkdir(parents=True, exist_ok=True)
    copied = []
    for name in FILES:
        source, copy_of_it = modules / name, target / Path(name).name
        packed = copy_of_it.with_name(f"{copy_of_it.name}.gz")
        if packed.exists() and copy_of_it.exists() and copy_of_it.read_bytes() == source.read_bytes():
            continue
        shutil.copyfile(source, copy_of_it)
        packed.write_bytes(gzip.compress(copy_of_it.read_bytes(), mtime=0))
        copied.append(copy_of_it)
    return copied


if __name__ == "__main__":
    try:
        for path in copy():
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    except FileNotFoundError as error:
        sys.exit(f"{error.filename} is missing: run `npm ci --ignore-scripts` first")
