"""`headrace.fs` as fsspec's users see it, and what comes with it: copies, checksums, attributes."""

import errno
import os
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

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


def test_directories_are_copied_with_what_is_empty(files: FileSystem, folder: str) -> None:
    files.makedirs(f"{folder}/a/empty")
    files.pipe_file(f"{folder}/a/f", b"x")
    files.copy(f"{folder}/a", f"{folder}/b", recursive=True)
    assert files.find(f"{folder}/b", withdirs=True) == [
        f"{folder}/b",
        f"{folder}/b/empty",
        f"{folder}/b/f",
    ]


REFUSALS: list[tuple[str, Callable[[FileSystem, str], Any], type[OSError], int]] = [
    ("info", lambda f, d: f.info(f"{d}/none"), FileNotFoundError, errno.ENOENT),
    ("ls", lambda f, d: f.ls(f"{d}/none"), FileNotFoundError, errno.ENOENT),
    ("open", lambda f, d: f.open(f"{d}/none"), FileNotFoundError, errno.ENOENT),
    ("append", lambda f, d: f.open(f"{d}/none", "ab"), FileNotFoundError, errno.ENOENT),
    ("cat", lambda f, d: f.cat_file(f"{d}/none"), FileNotFoundError, errno.ENOENT),
    ("mv", lambda f, d: f.mv(f"{d}/none", f"{d}/x"), FileNotFoundError, errno.ENOENT),
    ("rm", lambda f, d: f.rm(f"{d}/none"), FileNotFoundError, errno.ENOENT),
    ("rm -r", lambda f, d: f.rm(f"{d}/none", True), FileNotFoundError, errno.ENOENT),
    ("rm_file", lambda f, d: f.rm_file(f"{d}/none"), FileNotFoundError, errno.ENOENT),
    ("rmdir", lambda f, d: f.rmdir(f"{d}/none"), FileNotFoundError, errno.ENOENT),
    ("du", lambda f, d: f.du(f"{d}/none"), FileNotFoundError, errno.ENOENT),
    ("modified", lambda f, d: f.modified(f"{d}/none"), FileNotFoundError, errno.ENOENT),
    ("checksum", lambda f, d: f.checksum(f"{d}/none"), FileNotFoundError, errno.ENOENT),
    ("getxattrs", lambda f, d: f.setxattrs(f"{d}/none", a=b""), FileNotFoundError, errno.ENOENT),
    ("mkdir again", lambda f, d: f.mkdir(f"{d}/dir"), FileExistsError, errno.EEXIST),
    ("makedirs again", lambda f, d: f.makedirs(f"{d}/dir"), FileExistsError, errno.EEXIST),
    ("exclusive", lambda f, d: f.open(f"{d}/f", "xb"), FileExistsError, errno.EEXIST),
    ("mv onto", lambda f, d: f.mv(f"{d}/g", f"{d}/f"), FileExistsError, errno.EEXIST),
    ("read dir", lambda f, d: f.open(f"{d}/dir"), IsADirectoryError, errno.EISDIR),
    ("write dir", lambda f, d: f.open(f"{d}/dir", "wb"), IsADirectoryError, errno.EISDIR),
    ("below", lambda f, d: f.open(f"{d}/f/x", "wb"), NotADirectoryError, errno.ENOTDIR),
    ("mkdir below", lambda f, d: f.mkdir(f"{d}/f/x"), NotADirectoryError, errno.ENOTDIR),
    ("rmdir file", lambda f, d: f.rmdir(f"{d}/f"), NotADirectoryError, errno.ENOTDIR),
    ("rmdir full", lambda f, d: f.rmdir(f"{d}/dir"), OSError, errno.ENOTEMPTY),
    ("rm full", lambda f, d: f.rm(f"{d}/dir"), OSError, errno.ENOTEMPTY),
]


@pytest.mark.parametrize(
    ("call", "kind", "number"), [one[1:] for one in REFUSALS], ids=[one[0] for one in REFUSALS]
)
def test_refusals_are_pythons_own(
    files: FileSystem, folder: str, call: Callable[[FileSystem, str], Any], kind: Any, number: int
) -> None:
    files.pipe_file(f"{folder}/f", b"x")
    files.pipe_file(f"{folder}/g", b"x")
    files.pipe_file(f"{folder}/dir/full", b"x")
    with pytest.raises(kind) as told:
        call(files, folder)
    assert told.value.errno == number
    assert str(told.value.filename).startswith(folder)
    assert files.find(folder) == [f"{folder}/dir/full", f"{folder}/f", f"{folder}/g"]


def test_who_may_not_gets_a_permission_error(
    dfs: Target, files: FileSystem, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.pipe_file(f"{folder}/f", b"x")
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    bobs = FileSystem(dfs.url, skip_instance_cache=True)
    for call in (
        lambda: bobs.mkdir(f"{folder}/d"),
        lambda: bobs.rm(f"{folder}/f"),
        lambda: bobs.open(f"{folder}/g", "wb"),
        lambda: bobs.setxattrs(f"{folder}/f", a=b"x"),
    ):
        with pytest.raises(PermissionError, match="bob has no write access"):
            call()


def test_files_have_lines_and_ranges(files: FileSystem, folder: str) -> None:
    path = f"{folder}/f"
    files.pipe_file(path, b"".join(b"line %d\n" % number for number in range(10_000)))
    with files.open(path, "rb") as file:
        assert file.readline() == b"line 0\n"
        assert sum(1 for _ in file) == 9_999
        assert file.seek(-7, os.SEEK_END) == file.size - 7
        assert file.read() == b"e 9999\n"
        file.seek(file.size + 100)
        assert file.read() == b"", "behind the end is nothing, as in any file"
        file.seek(3)
        assert file.read(4) == b"e 0\n"
        assert file.tell() == 7
    with files.open(path, "r") as file:
        assert file.readlines()[-1] == "line 9999\n"
    for first, last in ((0, 5), (-7, None), (-7, -1), (None, 6), (10**6, 10**7), (5, 5)):
        assert files.cat_file(path, first, last) == files.cat_file(path)[first:last]
    with files.open(path, "rb") as file, pytest.raises(OSError, match="before the start"):
        file.seek(-(10**9), os.SEEK_END)


def test_times_and_sizes(files: FileSystem, folder: str) -> None:
    path = f"{folder}/f"
    files.pipe_file(path, b"x" * 10)
    assert abs(files.modified(path) - datetime.now(UTC)) < timedelta(minutes=5)
    assert files.created(path) == files.modified(path)
    before = files.info(path)["mtime"]
    files.touch(path, truncate=False)
    assert files.info(path)["mtime"] >= before
    assert files.size(path) == 10
    files.touch(path)
    assert files.size(path) == 0
    files.pipe_file(f"{folder}/d/g", b"x" * 7)
    assert files.du(folder) == files.du(f"{files.url}{folder}") == 7
    assert files.du(folder, total=False) == {f"{folder}/d/g": 7, path: 0}
    assert files.du(folder, maxdepth=1) == 0


def test_moves_and_removals(files: FileSystem, folder: str) -> None:
    for name in "abc":
        files.pipe_file(f"{folder}/{name}", name.encode())
    files.mkdir(f"{folder}/d")
    files.mv(f"{folder}/a", f"{folder}/d")
    assert files.cat_file(f"{folder}/d/a") == b"a", "into a directory, as fsspec's own do"
    files.mv(f"{folder}/c", f"{folder}/b", overwrite=True)
    assert files.cat_file(f"{folder}/b") == b"c"
    files.pipe_file(f"{folder}/c", b"c")
    files.rm([f"{folder}/b", f"{folder}/c"])
    files.rm(f"{folder}/d/*")
    files.rmdir(f"{folder}/d")
    assert files.ls(folder) == []
    assert [list(files.walk(folder)), files.isdir(folder), files.isfile(folder)] == [
        [(folder, [], [])],
        True,
        False,
    ]


def test_a_file_is_open_until_it_is_closed(files: FileSystem, folder: str) -> None:
    for mode, content in (("wb", b"one"), ("ab", b"two")):
        file = files.open(f"{folder}/f", mode)
        file.write(content)
        file.write(b"!")
        file.close()
    assert files.cat_file(f"{folder}/f") == b"one!two!"
    with pytest.raises(ValueError, match="not supported"):
        files.open(f"{folder}/f", "r+b")


def test_files_of_a_transaction_have_their_names_at_its_end(files: FileSystem, folder: str) -> None:
    files.pipe_file(f"{folder}/old", b"old")
    with files.transaction:
        with files.open(f"{folder}/old", "wb") as file:
            file.write(b"new")
        with files.open(f"{folder}/text", "w") as text:
            text.write("text")
        files.pipe_file(f"{folder}/piped", b"piped")
        files.cp_file(f"{folder}/old", f"{folder}/copy")
        assert files.cat_file(f"{folder}/old") == b"old"
        assert not files.exists(f"{folder}/text")
    found = {name: files.cat_file(name) for name in files.find(folder)}
    assert found == {
        f"{folder}/copy": b"old",
        f"{folder}/old": b"new",
        f"{folder}/piped": b"piped",
        f"{folder}/text": b"text",
    }


def test_a_transaction_that_fails_leaves_nothing(files: FileSystem, folder: str) -> None:
    files.pipe_file(f"{folder}/f", b"old")

    def write_and_fail() -> None:
        with files.transaction:
            files.open(f"{folder}/open", "wb").write(b"never closed")
            with files.open(f"{folder}/f", "wb") as file:
                file.write(b"new")
                raise KeyError("on purpose")

    with pytest.raises(KeyError):
        write_and_fail()
    assert files.find(folder) == [f"{folder}/f"]
    assert files.cat_file(f"{folder}/f") == b"old"
    with files.transaction:
        with pytest.raises(FileExistsError):
            files.open(f"{folder}/f", "xb")
        with pytest.raises(IsADirectoryError):
            files.open(folder, "wb")
        with pytest.raises(ValueError, match="no place in a transaction"):
            files.open(f"{folder}/f", "ab")
    assert files.find(folder) == [f"{folder}/f"]


def test_another_process_gets_the_same(files: FileSystem, folder: str) -> None:
    files.pipe_file(f"{folder}/f", b"x")
    assert pickle.loads(pickle.dumps(files)).cat_file(f"{folder}/f") == b"x"


def test_nobody_answers() -> None:
    nobody = FileSystem("hdfs://127.0.0.1:1", skip_instance_cache=True)
    for call in (nobody.ls, nobody.exists, nobody.getxattrs, nobody.open):
        with pytest.raises(ConnectionError, match=r"can't reach 127\.0\.0\.1:1"):
            call("/x")


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
