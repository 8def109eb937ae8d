"""Runs each benchmark of this folder in a process of its own: `python -m bench`, or `python -m bench NAME ...`."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(names: list[str]) -> int:
    found = sorted(file.stem for file in HERE.glob("*.py") if not file.stem.startswith("_"))
    unknown = sorted(set(names) - set(found))
    if unknown:
        print(f"There is no benchmark {', '.join(unknown)}; there are: {', '.join(found)}.", file=sys.stderr)
        return 2
    failed = 0
    for name in names or found:
        print(f"--- {name}", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=HERE.parent, check=False).returncode
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
