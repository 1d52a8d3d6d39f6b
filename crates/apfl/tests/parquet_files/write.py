"""Writes the files beside it, with PyArrow: Zstandard by the reference library, pages of both
versions, dictionaries, and columns that fill more than one of Zstandard's blocks."""

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent


def write(name, table, **options):
    pq.write_table(
        table,
        HERE / f"{name}.parquet",
        compression="zstd",
        store_schema=False,
        write_statistics=False,
        **options,
    )


# The table of tests/parquet.rs.
rows = range(10)
table = pa.table({
    "client": [f"client {k % 2}" for k in rows],
    "label": [["hen", "cat"][k // 2 % 2] for k in rows],
    "a": [k / 3 for k in rows],
    "b": np.arange(10, dtype=np.float32) / np.float32(7),
    "c": [k - 5 for k in rows],
    "d": pa.array(rows, pa.uint8()),
    "e": [k % 3 == 0 for k in rows],
})
write("zstd-v1", table, data_page_version="1.0")
write("zstd-v2", table, data_page_version="2.0", row_group_size=4)

rows = range(20_000)
table = pa.table({
    "client": [f"client {k % 5}" for k in rows],
    "label": ["yes" if k % 3 == 0 else "no" for k in rows],
    "x": [float(k % 7) for k in rows],
    "y": pa.array([float(k * k % 1000) for k in rows], pa.float32()),
})
for version in ["1.0", "2.0"]:
    write(
        f"zstd-long-v{version[0]}",
        table,
        data_page_version=version,
        compression_level=19,
        use_dictionary=["client", "label"],
        column_encoding={"x": "PLAIN", "y": "PLAIN"},
    )
