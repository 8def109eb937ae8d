"""Arrow without pandas.

With its first array pyarrow looks, once, whether there is pandas, and loads it: 55 MB more and half a second of the
processor, where it is installed. No code here uses it.
"""

import sys
from functools import cache
from importlib.abc import MetaPathFinder
from typing import Any


class _Absent(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out: see ingest.telemetry.arrow", name=fullname)


@cache
def leave_pandas_out() -> None:
    """Has pyarrow look now, and find none. To be called before its first array is made; later it does nothing."""
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(absent)
