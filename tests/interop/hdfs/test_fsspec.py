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
