"""Files of the lake that grow: Parquet as a node's, by row groups, for more rows than memory should hold."""

from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 400_000
"""Of a row group, at least, unless a file ends: what waits in memory."""


class ParquetFile:
    """Written beside its place and moved there when it is whole. Raises OSError."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._partial = path.with_name(f".{path.name}.tmp")
        # Without Arrow's own schema, which would have readers make dictionaries of texts.
        self._writer = pq.ParquetWriter(self._partial, schema, compression="zstd", store_schema=False)
        self._waiting: list[pa.Table] = []
        self.rows = 0

    def write(self, records: pa.Table) -> None:
        self._waiting.append(records)
        self.rows += records.num_rows
        if sum(table.num_rows for table in self._waiting) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            records = pa.concat_tables(waiting)
            self._writer.write_table(records, row_group_size=max(1, records.num_rows))

    def __enter__(self) -> "ParquetFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
        if kind is None and self.rows:
            self._partial.rename(self._path)
        else:
            self._partial.unlink(missing_ok=True)
