"""A pytest plugin of `make quick`: tests that have not begun by the time in TESTS_UNTIL are skipped, and so counted.

It is in seconds since the epoch.
"""

import os
import time

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if time.time() > float(os.environ["TESTS_UNTIL"]):
        pytest.skip("no time left")
