"""hdfs-native, the client that our pipeline and command line use."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import hdfs_native
import pytest

MIB = 1 << 20

Write = Callable[[str, bytes], None]


@pytest.fixture
def write(client: hdfs_native.Client) -> Write:
    def put(path: str, data: bytes) -> None:
        with client.create(path) as file:
            file.write(data)

    return put


def read(client: hdfs_native.Client, path: str) -> bytes:
    with client.read(path) as file:
        return bytes(file.read())


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 65536, MIB - 1, MIB, MIB + 1, 5 * MIB + 7])
def test_what_was_written_is_read(
    client: hdfs_native.Client, folder: str, write: Write, size: int
) -> None:
    data = os.urandom(size)
    write(f"{folder}/f", data)
    assert read(client, f"{folder}/f") == data
    status = client.get_file_info(f"{folder}/f")
    assert (status.length, status.isdir, status.replication) == (size, False, 3)


def test_a_range_in_the_middle_of_a_file(
    client: hdfs_native.Client, folder: str, write: Write
) -> None:
    data = os.urandom(3 * MIB)
    write(f"{folder}/f", data)
    with client.read(f"{folder}/f") as file:
        for offset, length in [(0, 10), (MIB - 5, 10), (MIB + 513, 1000), (3 * MIB - 3, 3)]:
            assert bytes(file.read_range(offset, length)) == data[offset : offset + length]


def test_small_blocks_and_one_replica(client: hdfs_native.Client, folder: str) -> None:
    options = hdfs_native.WriteOptions(block_size=MIB, replication=1, permission=0o600)
    data = os.urandom(2 * MIB + 5)
    with client.create(f"{folder}/f", options) as file:
        file.write(data)
    status = client.get_file_info(f"{folder}/f")
    assert (status.blocksize, status.replication, status.permission) == (MIB, 1, 0o600)
    assert read(client, f"{folder}/f") == data


def test_append(client: hdfs_native.Client, folder: str, write: Write) -> None:
    first, second, third = os.urandom(700), os.urandom(MIB), os.urandom(3)
    write(f"{folder}/f", first)
    for data in (second, third):
        with client.append(f"{folder}/f") as file:
            file.write(data)
    assert read(client, f"{folder}/f") == first + second + third


def test_many_writers_that_sync_and_close(client: hdfs_native.Client, folder: str) -> None:
    """One replica: no other node hides that a writer was not told of its end."""

    def put(name: int) -> bytes:
        data = os.urandom(100 + name)
        with client.create(f"{folder}/{name}", hdfs_native.WriteOptions(replication=1)) as file:
            file.write(data)
            file.hsync()
        return data

    with ThreadPoolExecutor(6) as pool:
        written = list(pool.map(put, range(120)))
    for name, data in enumerate(written):
        assert read(client, f"{folder}/{name}") == data


def test_create_refuses_what_exists_unless_told_to_overwrite(
    client: hdfs_native.Client, folder: str, write: Write
) -> None:
    write(f"{folder}/f", b"old")
    with pytest.raises(Exception, match=r"already exists|AlreadyExists"):
        client.create(f"{folder}/f")
    with client.create(f"{folder}/f", hdfs_native.WriteOptions(overwrite=True)) as file:
        file.write(b"new")
    assert read(client, f"{folder}/f") == b"new"


def test_listing_walks_deep(client: hdfs_native.Client, folder: str, write: Write) -> None:
    for name in ("a", "b", "sub/c", "sub/deep/d"):
        write(f"{folder}/{name}", name.encode())
    found = {(status.path, status.isdir) for status in client.list_status(folder, True)}
    assert found == {
        (f"{folder}/a", False),
        (f"{folder}/b", False),
        (f"{folder}/sub", True),
        (f"{folder}/sub/c", False),
        (f"{folder}/sub/deep", True),
        (f"{folder}/sub/deep/d", False),
    }


def test_a_listing_of_more_than_one_part(client: hdfs_native.Client, folder: str) -> None:
    names = {f"n{number:05d}" for number in range(1200)}
    for name in names:
        client.mkdirs(f"{folder}/{name}", 0o755, True)
    assert {status.path.rpartition("/")[2] for status in client.list_status(folder)} == names


def test_rename_delete_and_what_is_missing(
    client: hdfs_native.Client, folder: str, write: Write
) -> None:
    write(f"{folder}/a", b"a")
    write(f"{folder}/b", b"b")
    with pytest.raises(Exception, match=r"exists|Exists"):
        client.rename(f"{folder}/a", f"{folder}/b", False)
    client.rename(f"{folder}/a", f"{folder}/b", True)
    assert read(client, f"{folder}/b") == b"a"
    with pytest.raises(FileNotFoundError):
        client.get_file_info(f"{folder}/a")
    assert client.delete(f"{folder}/b", False)
    assert not client.delete(f"{folder}/b", False)
    with pytest.raises(FileNotFoundError):
        client.read(f"{folder}/b")


def test_a_full_directory_is_deleted_only_recursively(
    client: hdfs_native.Client, folder: str, write: Write
) -> None:
    write(f"{folder}/sub/f", b"x")
    with pytest.raises(Exception, match=r"empty|PathIsNotEmptyDirectory"):
        client.delete(f"{folder}/sub", False)
    assert client.delete(f"{folder}/sub", True)


def test_attributes(client: hdfs_native.Client, folder: str, write: Write) -> None:
    path = f"{folder}/f"
    write(path, b"x")
    client.set_permission(path, 0o640)
    client.set_owner(path, "anna", "staff")
    client.set_times(path, 1_700_000_000_000, 1_700_000_001_000)
    assert client.set_replication(path, 2)
    status = client.get_file_info(path)
    assert (status.permission, status.owner, status.group) == (0o640, "anna", "staff")
    assert status.modification_time == 1_700_000_000_000
    assert status.access_time == 1_700_000_001_000
    assert status.replication == 2


def test_content_summary(client: hdfs_native.Client, folder: str, write: Write) -> None:
    write(f"{folder}/a", b"x" * 1000)
    write(f"{folder}/sub/b", b"y" * 24)
    summary = client.get_content_summary(folder)
    assert (summary.length, summary.file_count, summary.directory_count) == (1024, 2, 2)
    assert summary.space_consumed == 3072


def acl_entries(text: str) -> list[hdfs_native.AclEntry]:
    """As `hdfs dfs -setfacl` takes them: `[default:]TYPE:[NAME]:PERMISSIONS,…`."""
    entries = []
    for entry in text.split(","):
        *default, type_, name, permissions = entry.split(":")
        scope = "default" if default else "access"
        entries.append(hdfs_native.AclEntry(type_, scope, permissions, name or None))  # type: ignore[arg-type]
    return entries


def acl_of(client: hdfs_native.Client, path: str) -> tuple[str, int]:
    """Entries as `acl_entries` takes them, in the order of the answer, and the permission."""
    status = client.get_acl_status(path)
    entries = [
        ("default:" if entry.scope == "default" else "")
        + f"{entry.type}:{entry.name or ''}:{entry.permissions}"
        for entry in status.entries
    ]
    return ",".join(entries), status.permission


def test_acls_of_a_file(client: hdfs_native.Client, folder: str, write: Write) -> None:
    path = f"{folder}/f"
    write(path, b"x")
    client.set_permission(path, 0o640)
    assert acl_of(client, path) == ("", 0o640)

    client.modify_acl_entries(path, acl_entries("user:anna:rw-"))
    # The group's own bits are the mask of all that is named.
    assert acl_of(client, path) == ("user:anna:rw-,group::r--", 0o660)
    client.modify_acl_entries(path, acl_entries("group:staff:r-x,user:anna:r--"))
    assert acl_of(client, path) == ("user:anna:r--,group::r--,group:staff:r-x", 0o650)
    client.modify_acl_entries(path, acl_entries("mask::r--"))
    assert acl_of(client, path) == ("user:anna:r--,group::r--,group:staff:r-x", 0o640)

    client.remove_acl_entries(path, acl_entries("user:anna:---"))
    assert acl_of(client, path) == ("group::r--,group:staff:r-x", 0o650)
    client.set_acl(path, acl_entries("user::rwx,user:ben:-w-,group::r-x,other::--x"))
    assert acl_of(client, path) == ("user:ben:-w-,group::r-x", 0o771)
    status = client.get_acl_status(path)
    info = client.get_file_info(path)
    assert (status.owner, status.group, status.sticky) == (info.owner, info.group, False)

    client.remove_acl(path)
    assert acl_of(client, path) == ("", 0o751)
    assert client.get_file_info(path).permission == 0o751


def test_what_an_acl_says_by_default_new_children_have(
    client: hdfs_native.Client, folder: str, write: Write
) -> None:
    parent = f"{folder}/shared"
    client.mkdirs(parent, 0o750, True)
    client.modify_acl_entries(parent, acl_entries("default:user:anna:rwx,user:ben:r-x"))
    defaults = (
        "default:user::rwx,default:user:anna:rwx,default:group::r-x,"
        "default:mask::rwx,default:other::---"
    )
    assert acl_of(client, parent) == (f"user:ben:r-x,group::r-x,{defaults}", 0o750)
    write(f"{parent}/f", b"x")
    client.mkdirs(f"{parent}/sub", 0o755, True)
    entries, _ = acl_of(client, f"{parent}/f")
    assert entries == "user:anna:rwx,group::r-x"
    entries, _ = acl_of(client, f"{parent}/sub")
    assert entries == f"user:anna:rwx,group::r-x,{defaults}"

    client.remove_default_acl(parent)
    assert acl_of(client, parent) == ("user:ben:r-x,group::r-x", 0o750)
    write(f"{parent}/g", b"x")
    assert acl_of(client, f"{parent}/g")[0] == ""
    assert acl_of(client, f"{parent}/f")[0] == "user:anna:rwx,group::r-x"


def test_acls_that_make_no_sense_are_refused(
    client: hdfs_native.Client, folder: str, write: Write
) -> None:
    path = f"{folder}/f"
    write(path, b"x")
    before = acl_of(client, path)
    with pytest.raises(Exception, match="AclException"):
        client.set_acl(path, acl_entries("user:anna:rw-"))  # nothing for the owner
    with pytest.raises(Exception, match="AclException"):
        client.modify_acl_entries(path, acl_entries("default:user:anna:rw-"))  # of a file
    with pytest.raises(FileNotFoundError):
        client.get_acl_status(f"{folder}/missing")
    assert acl_of(client, path) == before
