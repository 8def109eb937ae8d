"""Machines, as far as the network goes: Linux's network namespaces, joined by a cable that can be pulled."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import SkipTest

NETWORK = "10.213.77"
CABLE = "cable"


@dataclass(frozen=True)
class Machine:
    """`address`: its end of the cable's."""

    pid: int
    """Of the process that keeps it."""
    address: str

    def command(self, *words: str) -> list[str]:
        """The same, run there."""
        return ["nsenter", "--target", str(self.pid), "--net", "--", *words]

    def run(self, *words: str) -> None:
        subprocess.run(self.command(*words), check=True, capture_output=True, timeout=10)


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """Raises SkipTest where this machine allows none: the calling test is skipped."""
    keepers = [_keeper(), _keeper()]
    try:
        for keeper in keepers:
            assert keeper.stdout is not None
            if keeper.stdout.readline() != b"ready\n":
                raise SkipTest("network namespaces are not allowed on this machine")
        one, other = (Machine(keeper.pid, f"{NETWORK}.{end}") for end, keeper in enumerate(keepers, 1))
        try:
            one.run(*f"ip link add {CABLE} type veth peer name {CABLE} netns {other.pid}".split())
        except subprocess.CalledProcessError as error:
            raise SkipTest(f"no cable between network namespaces: {error.stderr.decode().strip()}") from None
        for machine in (one, other):
            machine.run("ip", "address", "add", f"{machine.address}/24", "dev", CABLE)
            for device in ("lo", CABLE):
                machine.run("ip", "link", "set", device, "up")
        yield one, other
    finally:
        for keeper in keepers:
            keeper.kill()
            keeper.communicate()


def _keeper() -> "subprocess.Popen[bytes]":
    """Lives as long as its standard input is open, and says that it does."""
    return subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def pull(machine: Machine) -> None:
    """The cable, at this end: nobody is told."""
    machine.run("ip", "link", "set", CABLE, "down")


def plug(machine: Machine) -> None:
    machine.run("ip", "link", "set", CABLE, "up")
