"""Fuzzes by coverage, with atheris: `python -m tests.fuzz [TARGET ...] [--seconds N | --runs N] [--corpus FOLDER]`.

Each target runs in a process of its own, one after the other, as libFuzzer ends its process. If a target finds
something, the exit code is 1 and the input is in FOLDER/TARGET/finds; `python -m tests.fuzz TARGET --input FILE` runs
it again. The corpus grows from run to run.
"""

import argparse
import os
import re
import sys
import tempfile
import traceback
from hashlib import sha256
from pathlib import Path
from time import process_time
from typing import Any

import atheris

with atheris.instrument_imports(include=["ingest"]):
    from tests.pure.test_fuzz import PLANTED, TARGETS, Target

MAX_CPU_S = 0.5  # The slowest inputs take a tenth of it, with all that is counted here.
ENDLESS_S = 60  # We measure real time here, and the machine may be busy.
DONE = re.compile(r"#(\d+)\s+DONE\s+cov: (\d+) ft: (\d+) corp: (\d+)/(\S+).*exec/s: (\d+)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--runs", type=int, default=0, help="inputs for each target, whatever time they take")
    parser.add_argument("--corpus", type=Path, default=Path("var/fuzz"), metavar="FOLDER")
    parser.add_argument("--input", type=Path, metavar="FILE", help="run this one only")
    given = parser.parse_args()
    atheris.instrument_func(PLANTED.run)
    targets = {**TARGETS, "planted": PLANTED}
    unknown = [name for name in given.targets if name not in targets]
    if unknown:
        parser.error(f"there is no target {', '.join(unknown)}")
    names = given.targets or list(TARGETS)
    if given.input:
        for name in names:
            targets[name].run(given.input.read_bytes())
        return 0
    return max([fuzz(name, targets[name], given) for name in names])


def fuzz(name: str, target: Target, given: Any) -> int:
    """Print libFuzzer's words about a find, or else one line of figures. Return 1 for a find."""
    folder = given.corpus / name
    (folder / "finds").mkdir(parents=True, exist_ok=True)
    (folder / "corpus").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rtmpweb-fuzz-") as temporary:
        begin = Path(temporary) / "seeds"
        begin.mkdir()
        for number, data in enumerate(target.seeds()):
            (begin / f"{number:04}").write_bytes(data[: target.max_input_bytes])
        log = Path(temporary) / "log"
        child = os.fork()
        if child == 0:
            run(target, folder, begin, log, given)  # Does not come back.
        _, status = os.waitpid(child, 0)
        said = log.read_text(errors="replace")
    done = DONE.search(said)
    if status or not done:
        why = "\n".join(line for line in said.splitlines() if not line.startswith(("#", "INFO", "WARNING")))
        print(f"{name}: FOUND something, see {folder / 'finds'}\n{why}", flush=True)  # noqa: T201
        return 1
    executions, edges, features, inputs, size, speed = done.groups()
    coverage = f"coverage {edges} edges, {features} features, corpus {inputs} inputs ({size})"
    print(f"{name}: {executions} executions ({speed}/s), {coverage}", flush=True)  # noqa: T201
    return 0


def run(target: Target, folder: Path, begin: Path, log: Path, given: Any) -> None:
    """Fuzz in the child process, which ends here."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)

    def once(data: bytes) -> None:
        begun = process_time()
        try:
            target.run(data)
            took = process_time() - begun
            assert took < MAX_CPU_S, f"{took:.2f} s for {len(data)} bytes"
        except Exception:
            (folder / "finds" / f"error-{sha256(data).hexdigest()[:16]}").write_bytes(data)
            report()

    limit = [f"-runs={given.runs}"] if given.runs else [f"-max_total_time={given.seconds}"]
    limit += ["-seed=1", "-rss_limit_mb=1024", f"-max_len={target.max_input_bytes}", f"-timeout={ENDLESS_S}"]
    folders = [f"-artifact_prefix={folder / 'finds'}/", str(folder / "corpus"), str(begin)]
    try:
        atheris.Setup([sys.argv[0], *limit, *folders], once)
        atheris.Fuzz()
    except BaseException:  # An end in good order is libFuzzer's own exit.
        report()


def report() -> None:
    """End the child with the current error, before it cleans up things of its parent."""
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(70)


if __name__ == "__main__":
    sys.exit(main())
