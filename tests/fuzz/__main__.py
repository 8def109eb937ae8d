"""Fuzzes by coverage, with atheris: `python -m tests.fuzz [TARGET ...] [--seconds N | --runs N] [--corpus FOLDER]`.

Each target runs in a process of its own, one after the other, as libFuzzer ends its process. The exit code is 1 when
one found something: the input is in FOLDER/TARGET/finds, and `python -m tests.fuzz TARGET --input FILE` shows what it
does. The corpus grows from run to run.
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
    from tests.fuzz.target import Target
    from tests.fuzz.targets import PLANTED, TARGETS

SEED = 1
DEAR = 0.5
"""Seconds of processor time that no input may take; with all that is counted here, the dearest take a tenth of it."""
ENDLESS = 60
"""Seconds by the clock after which an input is taken to go on for ever. The machine may be busy."""
MEMORY_MB = 1024
FAULT = 70
SLOWEST = re.compile(r"SLOWEST (\d+)")
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
    """1 when the target found something. Prints what libFuzzer says of a find, else one line of figures."""
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
    slowest = (SLOWEST.findall(said) or ["0"])[-1]
    print(  # noqa: T201
        f"{name}: {executions} executions ({speed}/s), coverage {edges} edges, {features} features, "
        f"corpus {inputs} inputs ({size}), dearest input {slowest} ms",
        flush=True,
    )
    return 0


def run(target: Target, folder: Path, begin: Path, log: Path, given: Any) -> None:
    """In the child, which ends here."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)

    slowest = 0.01

    def once(data: bytes) -> None:
        nonlocal slowest
        begun = process_time()
        try:
            target.run(data)
            took = process_time() - begun
            assert took < DEAR, f"{took:.2f} s for {len(data)} bytes"
            if took > slowest:
                slowest = took
                print(f"SLOWEST {took * 1000:.0f}", flush=True)  # noqa: T201
        except Exception:
            (folder / "finds" / f"error-{sha256(data).hexdigest()[:16]}").write_bytes(data)
            report()

    limit = [f"-runs={given.runs}"] if given.runs else [f"-max_total_time={given.seconds}"]
    arguments = [
        sys.argv[0],
        *limit,
        f"-seed={SEED}",
        f"-max_len={target.max_input_bytes}",
        f"-timeout={ENDLESS}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-artifact_prefix={folder / 'finds'}/",
        str(folder / "corpus"),
        str(begin),
    ]
    try:
        atheris.Setup(arguments, once)
        atheris.Fuzz()
    except BaseException:  # An end in good order is libFuzzer's own exit.
        report()


def report() -> None:
    """Ends the child with the error at hand, before it cleans up what is its parent's."""
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(FAULT)


if __name__ == "__main__":
    sys.exit(main())
