"""A fault to be found, which proves that a find ends a run: one byte to guess, behind one that the seed has."""

from tests.fuzz.target import Target


def run(data: bytes) -> None:
    if data[:1] == b"\xc0" and len(data) > 3 and data[1] >= 0xDE:
        raise ValueError("the planted fault")


PLANTED = Target(run, lambda: [b"\xc0000"], 4)
