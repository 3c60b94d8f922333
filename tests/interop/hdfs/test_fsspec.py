"""`headrace.fs` as fsspec's users see it, and what comes with it: copies, checksums, attributes."""

import os

import pytest
from tests.interop.hdfs.conftest import FileSystem as Target

from headrace.fs import FileSystem


@pytest.fixture
def files(dfs: Target) -> FileSystem:
    return FileSystem(dfs.url)


def test_write_read_append_seek(files: FileSystem, folder: str) -> None:
    data = os.urandom(3_000_000)
    with files.open(f"{folder}/f", "wb") as file:
        file.write(data)
    with files.open(f"{folder}/f", "ab") as file:
        file.write(b"end")
    with files.open(f"{folder}/f", "rb") as file:
        file.seek(2_999_990)
        assert file.read() == data[-10:] + b"end"
    assert files.cat_file(f"{folder}/f", 10, 20) == data[10:20]
    assert files.info(f"{folder}/f")["size"] == 3_000_003


def test_names(files: FileSystem, folder: str) -> None:
    files.makedirs(f"{folder}/a/b")
    files.pipe_file(f"{folder}/a/f", b"x")
    assert files.find(folder) == [f"{folder}/a/f"]
    assert sorted(files.ls(f"{folder}/a", detail=False)) == [f"{folder}/a/b", f"{folder}/a/f"]
    assert files.glob(f"{folder}/*/f") == [f"{folder}/a/f"]
    files.mv(f"{folder}/a/f", f"{folder}/a/g")
    assert not files.exists(f"{folder}/a/f")
    files.rm(f"{folder}/a", recursive=True)
    assert not files.exists(f"{folder}/a")


def test_a_copy_replaces_its_target_at_once(files: FileSystem, folder: str) -> None:
    files.pipe_file(f"{folder}/a", b"new" * 1000)
    files.pipe_file(f"{folder}/b", b"old")
    files.cp_file(f"{folder}/a", f"{folder}/b")
    assert files.cat_file(f"{folder}/b") == b"new" * 1000
    assert sorted(files.ls(folder, detail=False)) == [f"{folder}/a", f"{folder}/b"]
    with pytest.raises(FileNotFoundError):
        files.cp_file(f"{folder}/nope", f"{folder}/c")


def test_checksums_and_attributes(files: FileSystem, folder: str) -> None:
    files.pipe_file(f"{folder}/a", b"same" * 1000)
    files.pipe_file(f"{folder}/b", b"same" * 1000)
    files.pipe_file(f"{folder}/c", b"else" * 1000)
    a, b, c = (files.checksum(f"{folder}/{name}") for name in "abc")
    assert a == b != c
    files.setxattrs(f"{folder}/a", origin=b"sensors")
    assert files.getxattrs(f"{folder}/a") == {"user.origin": b"sensors"}


def test_arrow_reads_and_writes_parquet(files: FileSystem, folder: str) -> None:
    pytest.importorskip("pyarrow", reason="NOT RUN: pyarrow comes with the pipeline")
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"n": list(range(1000)), "s": [str(n) for n in range(1000)]})
    pyarrow.parquet.write_table(table, f"{folder}/t.parquet", filesystem=files)
    assert pyarrow.parquet.read_table(f"{folder}/t.parquet", filesystem=files).equals(table)


def test_pandas_reads_and_writes(files: FileSystem, folder: str) -> None:
    pandas = pytest.importorskip("pandas", reason="NOT RUN: pandas comes with the pipeline")
    pytest.importorskip("pyarrow", reason="NOT RUN: pyarrow comes with the pipeline")
    frame = pandas.DataFrame({"n": range(1000), "s": [f"row {n}" for n in range(1000)]})
    frame.to_parquet(f"{folder}/f.parquet", filesystem=files)
    assert pandas.read_parquet(f"{folder}/f.parquet", filesystem=files).equals(frame)
    with files.open(f"{folder}/f.csv", "w") as file:
        frame.to_csv(file, index=False)
    with files.open(f"{folder}/f.csv") as file:
        assert pandas.read_csv(file).equals(frame)


def test_duckdb_reads_what_arrow_wrote(files: FileSystem, folder: str) -> None:
    """A directory of files through Arrow's datasets, and straight through fsspec."""
    pytest.importorskip("pyarrow", reason="NOT RUN: pyarrow comes with the pipeline")
    duckdb = pytest.importorskip("duckdb", reason="NOT RUN: duckdb is not installed")
    import pyarrow
    import pyarrow.dataset

    table = pyarrow.table({"n": list(range(1000)), "p": [n % 4 for n in range(1000)]})
    pyarrow.dataset.write_dataset(
        table, f"{folder}/t", filesystem=files, format="parquet", partitioning=["p"]
    )
    found = pyarrow.dataset.dataset(
        f"{folder}/t", filesystem=files, format="parquet", partitioning=["p"]
    )
    connection = duckdb.connect()
    connection.register("t", found)
    assert connection.execute("SELECT sum(n), count(*) FROM t WHERE p = 1").fetchall() == [
        (sum(range(1, 1000, 4)), 250)
    ]
    connection.register_filesystem(files)
    query = f"SELECT sum(n) FROM read_parquet('hdfs://{folder}/t/1/*.parquet')"
    assert connection.execute(query).fetchall() == [(sum(range(1, 1000, 4)),)]
