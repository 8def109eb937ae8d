"""A run that is killed, robbed of Java or the disk, or overtaken leaves what a clean one makes. More: tests/soak.

Which of these it is, where, and what happens to the lake meanwhile, differs from one run of the tests to the next.
"""

from pathlib import Path

import pytest

from tests.analytics.chaos import endure
from tests.tools import require_tool

pytestmark = [
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    pytest.mark.matrix,
]


def test_a_disturbed_run_ends_with_the_rows_of_a_clean_one(tmp_path: Path) -> None:
    require_tool("java")
    print(endure(tmp_path, disk="300m", times=1, streams=3, hours=2, files_per_hour=2))  # noqa: T201
