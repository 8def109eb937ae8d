"""Celery's soft time limit beside threads that start: in a process of its own, as signals are a whole process's."""

import subprocess
import sys

PREPARED = """
import os, signal, sys, threading, time

from billiard.exceptions import SoftTimeLimitExceeded
from billiard.pool import soft_timeout_sighandler

from analytics import soft_limit
from analytics.soft_limit import outside_thread_starts

signal.signal(signal.SIGUSR1, soft_timeout_sighandler)
"""

AS_A_THREAD_STARTS = """
goes, start_new_thread = threading.Event(), threading._start_new_thread
ran = []

def start(bootstrap, arguments):
    ident = start_new_thread(lambda: (goes.wait(), bootstrap()), arguments)
    os.kill(os.getpid(), signal.SIGUSR1)
    goes.set()
    return ident

threading._start_new_thread = start
sys.unraisablehook = lambda unraisable: ran.append(unraisable.err_msg)
thread = threading.Thread(target=ran.append, args=["the thread"])
try:
    {within}
        thread.start()
        thread.join()
        ran.append("what is next")
        while True:
            time.sleep(0.001)
except SoftTimeLimitExceeded:
    goes.set()
    while not ran:
        time.sleep(0.001)
    print(*ran, sep=", ")
"""


def run(script: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", PREPARED + script]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)


def test_soft_limit_is_raised_once_the_starting_thread_has_started() -> None:
    done = run(AS_A_THREAD_STARTS.format(within="with outside_thread_starts():"))
    assert (done.stdout, done.stderr) == ("the thread, what is next\n", "")


def test_unprotected_thread_start_is_broken_by_the_soft_limit() -> None:
    """What the one above keeps from happening."""
    done = run(AS_A_THREAD_STARTS.format(within="if True:"))
    assert (done.stdout, done.stderr) == ("Exception ignored in thread started by\n", "")


def test_deferred_soft_limit_is_cancelled_when_the_block_ends() -> None:
    done = run("""
start_new_thread = threading._start_new_thread
soft_limit.AGAIN_S = 60  # Not before the block has ended.

def start(bootstrap, arguments):
    os.kill(os.getpid(), signal.SIGUSR1)
    return start_new_thread(bootstrap, arguments)

threading._start_new_thread = start
with outside_thread_starts():
    threading.Thread(target=int).start()
print(signal.getitimer(signal.ITIMER_REAL))
""")
    assert (done.stdout, done.stderr) == ("(0.0, 0.0)\n", "")


def test_signal_handlers_are_restored_after_the_protected_block() -> None:
    done = run("""
with outside_thread_starts():
    pass
try:
    os.kill(os.getpid(), signal.SIGUSR1)
except SoftTimeLimitExceeded:
    print(signal.getsignal(signal.SIGUSR1) is soft_timeout_sighandler)
print(signal.getsignal(signal.SIGALRM) is signal.SIG_DFL)
""")
    assert (done.stdout, done.stderr) == ("True\nTrue\n", "")
