"""The trash: Hadoop's shell and ours on a NameNode that keeps it, which clients are not told of."""

import getpass
import re
from collections.abc import Iterator
from functools import partial

import hdfs_native
import pytest
from tests.conftest import not_run
from tests.interop.hadoop_tools import HadoopTools
from tests.interop.hdfs.conftest import TARGETS, FileSystem, Fs, Shell
from tests.interop.hdfs.real_hdfs import RealHdfs
from tests.interop.java_tools import JavaMissingError

from headrace.base.errors import HeadraceError, UsageError
from headrace.client.namenode import NameNodeClient
from headrace.client.trash import Trash
from headrace.testing.filesystem import LocalFileSystem

INTERVAL_MIN = 60 * 24 * 365
"""So long that the NameNode's own emptier keeps away."""
SETTINGS = {"fs.trash.interval": str(INTERVAL_MIN)}
ROOT = f"/user/{getpass.getuser()}/.Trash"
CHECKPOINT = re.compile(r"^/\d{12}(-\d+)?")


@pytest.fixture(scope="module", params=TARGETS)
def dfs(request: pytest.FixtureRequest) -> Iterator[FileSystem]:
    if request.param == "headrace":
        target: FileSystem = LocalFileSystem(datanodes=1, settings=SETTINGS)
    else:
        try:
            target = RealHdfs(datanodes=1, settings=SETTINGS)
        except JavaMissingError as missing:
            not_run(str(missing))
    with target as running:
        yield running


@pytest.fixture(autouse=True)
def namenode(dfs: FileSystem) -> Iterator[NameNodeClient]:
    """Every test begins without trash."""
    with NameNodeClient(dfs.url) as namenode:
        namenode.delete(ROOT)
        yield namenode


@pytest.fixture
def shell(hadoop: HadoopTools, dfs: FileSystem) -> Shell:
    return partial(hadoop.run, settings={"fs.defaultFS": dfs.url})


@pytest.fixture
def trash(namenode: NameNodeClient) -> Trash:
    return Trash(namenode)


def found(client: hdfs_native.Client, path: str = ROOT) -> list[str]:
    """Files in the trash, without its own path; checkpoints by the name of `time`."""
    files = [one.path.removeprefix(path) for one in client.list_status(path, True) if not one.isdir]
    return sorted(CHECKPOINT.sub("/time", name) for name in files)


def touch(client: hdfs_native.Client, *paths: str) -> None:
    for path in paths:
        client.create(path, hdfs_native.WriteOptions()).close()


@pytest.mark.java
def test_hadoop_s_shell_asks_the_server(
    shell: Shell, client: hdfs_native.Client, folder: str
) -> None:
    touch(client, f"{folder}/a", f"{folder}/b", f"{folder}/d/c")
    shell("dfs", "-rm", f"{folder}/a").check()
    shell("dfs", "-rm", "-r", f"{folder}/d").check()
    assert found(client) == [f"/Current{folder}/a", f"/Current{folder}/d/c"]
    assert client.get_file_info(f"{ROOT}/Current").permission == 0o700
    told = shell("dfs", "-rm", "-skipTrash", f"{folder}/b").check().stdout
    assert f"Deleted {folder}/b" in told
    assert len(found(client)) == 2
    shell("dfs", "-rm", f"{ROOT}/Current{folder}/a").check()
    assert found(client) == [f"/Current{folder}/d/c"], "what is in the trash is deleted for good"
    refused = shell("dfs", "-rm", "-r", "/user")
    assert refused.status == 1
    assert "as it contains the trash" in refused.stderr


@pytest.mark.java
def test_hadoop_s_shell_empties_it(shell: Shell, client: hdfs_native.Client, folder: str) -> None:
    kept = ("-D", "fs.trash.interval=60")
    touch(client, f"{folder}/a", f"{folder}/b")
    shell("dfs", "-rm", f"{folder}/a").check()
    shell("dfs", *kept, "-expunge").check()
    assert found(client) == [f"/time{folder}/a"]
    shell("dfs", "-rm", f"{folder}/b").check()
    shell("dfs", *kept, "-expunge").check()
    assert found(client) == [f"/time{folder}/a", f"/time{folder}/b"]
    touch(client, f"{ROOT}/200101120000/old", f"{ROOT}/notes/kept", f"{ROOT}/Current/c")
    shell("dfs", *kept, "-expunge").check()
    assert found(client) == ["/notes/kept", "/time/c", f"/time{folder}/a", f"/time{folder}/b"]
    shell("dfs", "-expunge", "-immediate").check()
    assert found(client) == ["/notes/kept"]


@pytest.mark.java
def test_both_shells_read_the_same_names(
    shell: Shell, trash: Trash, client: hdfs_native.Client, folder: str
) -> None:
    touch(client, f"{folder}/a", f"{folder}/b")
    shell("dfs", "-rm", f"{folder}/a").check()
    shell("dfs", "-D", "fs.trash.interval=60", "-expunge").check()
    assert trash.expunge() == ([], None), "made a moment ago"
    trash.move(f"{folder}/b")
    _, made = trash.expunge()
    shell("dfs", "-D", "fs.trash.interval=60", "-expunge").check()
    assert found(client) == [f"/time{folder}/a", f"/time{folder}/b"]
    assert made is not None
    deleted, _ = trash.expunge(immediate=True)
    assert made in deleted
    assert found(client) == []


def test_our_shell_moves_and_tells_where(fs: Fs, client: hdfs_native.Client, folder: str) -> None:
    touch(client, f"{folder}/a", f"{folder}/b", f"{folder}/d/c")
    told = fs("rm", f"{folder}/a").stderr.decode()
    assert told == f"moved {folder}/a to the trash: {ROOT}/Current{folder}/a\n"
    fs("rm", "-r", f"{folder}/d")
    assert found(client) == [f"/Current{folder}/a", f"/Current{folder}/d/c"]
    assert fs("rm", "--skip-trash", f"{folder}/b").stderr.decode() == f"deleted {folder}/b\n"
    assert b"made the checkpoint" in fs("expunge").stderr
    assert found(client) == [f"/time{folder}/a", f"/time{folder}/d/c"]
    assert b"deleted" in fs("expunge", "--immediate").stderr
    assert found(client) == []


def test_a_name_that_is_taken_gets_the_time(
    trash: Trash, client: hdfs_native.Client, folder: str
) -> None:
    for _ in range(3):
        touch(client, f"{folder}/a")
        assert trash.move(f"{folder}/a") is not None
    first, *others = found(client)
    assert first == f"/Current{folder}/a"
    assert len(others) == 2
    assert all(re.fullmatch(rf"/Current{folder}/a\d{{13}}", name) for name in others)


def test_slashes_too_many_are_one(trash: Trash, client: hdfs_native.Client, folder: str) -> None:
    touch(client, f"{folder}/a")
    assert trash.move(f"//{folder}//a/") == f"{ROOT}/Current{folder}/a"
    assert found(client) == [f"/Current{folder}/a"]


def test_at_once_means_checkpoints_of_a_zone_ahead_of_ours_too(
    trash: Trash, client: hdfs_native.Client
) -> None:
    touch(client, f"{ROOT}/991231235959/a")
    trash.expunge()
    assert found(client) == ["/time/a"]
    deleted, _ = trash.expunge(immediate=True)
    assert deleted == [f"{ROOT}/991231235959"]
    assert found(client) == []


def test_a_file_in_the_way_of_a_folder(
    trash: Trash, client: hdfs_native.Client, folder: str
) -> None:
    touch(client, f"{folder}/x")
    trash.move(f"{folder}/x")
    touch(client, f"{folder}/x/y/z")
    where = trash.move(f"{folder}/x/y/z")
    assert where is not None
    assert re.fullmatch(rf"{ROOT}/Current{folder}/x\d{{13}}/y/z", where)
    assert len(found(client)) == 2


def test_what_can_t_be_moved(
    trash: Trash, namenode: NameNodeClient, client: hdfs_native.Client, folder: str
) -> None:
    touch(client, f"{folder}/a", f"{ROOT}x")
    trash.move(f"{folder}/a")
    for path in (ROOT, f"{ROOT}/Current", f"{ROOT}/Current{folder}/a"):
        assert trash.move(path) is None, "it is there already: to be deleted"
    for path in ("/", "/user", f"/user/{namenode.user}", f"/user/{namenode.user}/"):
        with pytest.raises(UsageError, match="can't be moved to the trash, which it contains"):
            trash.move(path)
    with pytest.raises(HeadraceError, match="no such file"):
        trash.move(f"{folder}/none")
    assert trash.move(f"{ROOT}x") == f"{ROOT}/Current{ROOT}x"


def test_only_what_might_be_deleted_is_moved(
    dfs: FileSystem, client: hdfs_native.Client, folder: str
) -> None:
    touch(client, f"{folder}/a")
    client.mkdirs("/user/eve", 0o755, True)
    client.set_owner("/user/eve", "eve", None)
    refusal = pytest.raises(HeadraceError, match=r"(?s)Permission denied.*say --skip-trash")
    with NameNodeClient(dfs.url, "eve") as eve, refusal:
        Trash(eve).move(f"{folder}/a")
    assert client.get_file_info(f"{folder}/a").length == 0


def test_the_server_s_interval_counts(namenode: NameNodeClient) -> None:
    assert Trash(namenode, 5).interval_min == INTERVAL_MIN
