"""`hdfs dfs`: the FsShell of Hadoop 3.5 on our file system, and on Apache's as control."""

import getpass
import os
from pathlib import Path

import pytest
from tests.interop.hdfs.conftest import FileSystem, Shell

pytestmark = pytest.mark.java

MIB = 1 << 20


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local.txt"
    path.write_text("hello\n" * 1000)
    return path


def test_put_get_cat_tail(hdfs: Shell, folder: str, local: Path, tmp_path: Path) -> None:
    hdfs("dfs", "-put", str(local), f"{folder}/a").check()
    assert hdfs("dfs", "-cat", f"{folder}/a").check().stdout == local.read_text()
    assert hdfs("dfs", "-tail", f"{folder}/a").check().stdout == local.read_text()[-1024:]
    hdfs("dfs", "-get", f"{folder}/a", str(tmp_path / "back")).check()
    assert (tmp_path / "back").read_bytes() == local.read_bytes()


def test_a_file_of_several_blocks(hdfs: Shell, folder: str, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(os.urandom(5 * MIB + 17))
    hdfs("dfs", "-put", str(big), f"{folder}/big").check()
    hdfs("dfs", "-get", f"{folder}/big", str(tmp_path / "back")).check()
    assert (tmp_path / "back").read_bytes() == big.read_bytes()
    stat = hdfs("dfs", "-stat", "%b %o %r %F", f"{folder}/big").check().stdout
    assert stat.strip() == f"{5 * MIB + 17} {MIB} 3 regular file"


def test_put_from_stdin_and_append(hdfs: Shell, folder: str, local: Path) -> None:
    hdfs("dfs", "-put", "-", f"{folder}/in", stdin="first\n").check()
    hdfs("dfs", "-appendToFile", str(local), f"{folder}/in").check()
    assert hdfs("dfs", "-cat", f"{folder}/in").check().stdout == "first\n" + local.read_text()


def test_listing(hdfs: Shell, folder: str, local: Path) -> None:
    hdfs("dfs", "-mkdir", "-p", f"{folder}/sub/deep").check()
    hdfs("dfs", "-put", str(local), f"{folder}/sub/f").check()
    lines = hdfs("dfs", "-ls", "-R", folder).check().stdout.splitlines()
    shown = [(line.split()[0], line.split()[1], line.split()[4], line.split()[7]) for line in lines]
    assert shown == [
        ("drwxr-xr-x", "-", "0", f"{folder}/sub"),
        ("drwxr-xr-x", "-", "0", f"{folder}/sub/deep"),
        ("-rw-r--r--", "3", "6000", f"{folder}/sub/f"),
    ]


def test_move_copy_remove(hdfs: Shell, folder: str, local: Path) -> None:
    hdfs("dfs", "-put", str(local), f"{folder}/a").check()
    hdfs("dfs", "-cp", f"{folder}/a", f"{folder}/b").check()
    hdfs("dfs", "-mv", f"{folder}/a", f"{folder}/c").check()
    assert hdfs("dfs", "-test", "-e", f"{folder}/a").status == 1
    assert hdfs("dfs", "-cat", f"{folder}/b").stdout == hdfs("dfs", "-cat", f"{folder}/c").stdout
    assert "exists" in hdfs("dfs", "-mv", f"{folder}/b", f"{folder}/c").stderr.lower()
    hdfs("dfs", "-rm", f"{folder}/b", f"{folder}/c").check()
    assert hdfs("dfs", "-ls", folder).check().stdout == ""


def test_what_does_not_exist(hdfs: Shell, folder: str) -> None:
    for command in (
        ["-ls"],
        ["-cat"],
        ["-rm"],
        ["-stat"],
        ["-getfacl"],
        ["-du"],
        ["-chmod", "600"],
    ):
        refused = hdfs("dfs", *command, f"{folder}/nope")
        assert refused.status == 1, command
        assert "No such file or directory" in refused.stderr, command


def test_directories(hdfs: Shell, folder: str) -> None:
    hdfs("dfs", "-mkdir", f"{folder}/d").check()
    assert "File exists" in hdfs("dfs", "-mkdir", f"{folder}/d").stderr
    assert "No such file" in hdfs("dfs", "-mkdir", f"{folder}/x/y").stderr
    hdfs("dfs", "-touchz", f"{folder}/d/f").check()
    assert "not empty" in hdfs("dfs", "-rmdir", f"{folder}/d").stderr
    assert "Is a directory" in hdfs("dfs", "-rm", f"{folder}/d").stderr
    hdfs("dfs", "-rm", "-r", f"{folder}/d").check()


def test_trash(hdfs: Shell, folder: str, local: Path) -> None:
    hdfs("dfs", "-put", str(local), f"{folder}/f").check()
    done = hdfs("dfs", "-D", "fs.trash.interval=60", "-rm", f"{folder}/f", user="trasher")
    assert "Permission denied" in done.stderr
    hdfs("dfs", "-D", "fs.trash.interval=60", "-rm", f"{folder}/f").check()
    assert hdfs("dfs", "-test", "-e", f"{folder}/f").status == 1
    trash = hdfs("dfs", "-ls", "-R", "/user").check().stdout
    assert f"/.Trash/Current{folder}/f" in trash


def test_counts(hdfs: Shell, folder: str, local: Path) -> None:
    hdfs("dfs", "-put", str(local), f"{folder}/a").check()
    hdfs("dfs", "-mkdir", f"{folder}/d").check()
    assert hdfs("dfs", "-count", folder).check().stdout.split() == ["2", "1", "6000", folder]
    assert hdfs("dfs", "-du", "-s", folder).check().stdout.split() == ["6000", "18000", folder]


def test_owners_permissions_replication_times(hdfs: Shell, folder: str, local: Path) -> None:
    path = f"{folder}/f"
    hdfs("dfs", "-put", str(local), path).check()
    hdfs("dfs", "-chmod", "1750", folder).check()
    hdfs("dfs", "-chmod", "u=rw,go-rwx", path).check()
    hdfs("dfs", "-chown", "anna:staff", path).check()
    hdfs("dfs", "-setrep", "2", path).check()
    hdfs("dfs", "-touch", "-m", "-t", "20240102:030405", path).check()
    stat = hdfs("dfs", "-stat", "%a %u %g %r %y", path).check().stdout.strip()
    assert stat == "600 anna staff 2 2024-01-02 03:04:05"
    assert hdfs("dfs", "-stat", "%a", folder).check().stdout.strip() == "1750"


def test_permissions_are_kept(hdfs: Shell, folder: str, local: Path) -> None:
    hdfs("dfs", "-put", str(local), f"{folder}/secret").check()
    hdfs("dfs", "-chmod", "600", f"{folder}/secret").check()
    refused = hdfs("dfs", "-cat", f"{folder}/secret", user="eve")
    assert refused.status == 1
    assert "Permission denied: user=eve, access=READ" in refused.stderr
    refused = hdfs("dfs", "-mkdir", f"{folder}/eve", user="eve")
    assert "Permission denied: user=eve, access=WRITE" in refused.stderr
    refused = hdfs("dfs", "-chown", "eve", f"{folder}/secret", user="eve")
    assert refused.status == 1


def test_access_lists(hdfs: Shell, folder: str, local: Path) -> None:
    path = f"{folder}/f"
    hdfs("dfs", "-put", str(local), path).check()
    hdfs("dfs", "-chmod", "640", path).check()
    hdfs("dfs", "-setfacl", "-m", "user:eve:r--,group:staff:rw-", path).check()
    shown = hdfs("dfs", "-getfacl", path).check().stdout.splitlines()
    assert shown[3:] == [
        "user::rw-",
        "user:eve:r--",
        "group::r--",
        "group:staff:rw-",
        "mask::rw-",
        "other::---",
        "",
    ]
    assert hdfs("dfs", "-cat", path, user="eve").status == 0
    hdfs("dfs", "-setfacl", "-x", "user:eve", path).check()
    assert hdfs("dfs", "-cat", path, user="eve").status == 1
    hdfs("dfs", "-setfacl", "-b", path).check()
    assert "staff" not in hdfs("dfs", "-getfacl", path).check().stdout


def test_default_access_lists_are_inherited(hdfs: Shell, folder: str) -> None:
    hdfs("dfs", "-setfacl", "-m", "default:user:eve:rwx", folder).check()
    hdfs("dfs", "-mkdir", f"{folder}/d").check()
    shown = hdfs("dfs", "-getfacl", f"{folder}/d").check().stdout
    assert "\nuser:eve:rwx" in shown
    assert "\ndefault:user:eve:rwx" in shown


def test_extended_attributes(hdfs: Shell, folder: str) -> None:
    hdfs("dfs", "-setfattr", "-n", "user.origin", "-v", "sensors", folder).check()
    hdfs("dfs", "-setfattr", "-n", "user.bytes", "-v", "0x00ff", folder).check()
    shown = hdfs("dfs", "-getfattr", "-d", folder).check().stdout.splitlines()
    assert sorted(shown[1:]) == ["user.bytes=0x00ff", 'user.origin="sensors"'] or (
        'user.origin="sensors"' in shown
    )
    hdfs("dfs", "-setfattr", "-x", "user.origin", folder).check()
    assert hdfs("dfs", "-getfattr", "-n", "user.origin", folder).status == 1


def test_a_snapshot_keeps_the_block_that_is_cut(hdfs: Shell, folder: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.write_bytes(os.urandom(1_500_000))  # a block and a half
    hdfs("dfs", "-put", str(whole), f"{folder}/a").check()
    hdfs("dfsadmin", "-allowSnapshot", folder).check()
    hdfs("dfs", "-createSnapshot", folder, "before").check()
    hdfs("dfs", "-truncate", "-w", "1300007", f"{folder}/a").check()
    for path, length in ((f"{folder}/a", 1_300_007), (f"{folder}/.snapshot/before/a", 1_500_000)):
        target = tmp_path / str(length)
        hdfs("dfs", "-get", path, str(target)).check()
        assert target.read_bytes() == whole.read_bytes()[:length]


def test_truncate_and_concat(hdfs: Shell, folder: str, local: Path) -> None:
    for name in ("a", "b", "c"):
        hdfs("dfs", "-put", str(local), f"{folder}/{name}").check()
    hdfs("dfs", "-truncate", "-w", "100", f"{folder}/a").check()
    assert hdfs("dfs", "-cat", f"{folder}/a").check().stdout == local.read_text()[:100]
    hdfs("dfs", "-concat", f"{folder}/a", f"{folder}/b", f"{folder}/c").check()
    whole = hdfs("dfs", "-cat", f"{folder}/a").check().stdout
    assert whole == local.read_text()[:100] + 2 * local.read_text()


def test_a_checksum_is_the_content(hdfs: Shell, folder: str, local: Path, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"headrace" * (2 * MIB // 8))
    hdfs("dfs", "-put", str(local), f"{folder}/a").check()
    hdfs("dfs", "-put", str(big), f"{folder}/big").check()
    small, large = (
        hdfs("dfs", "-checksum", f"{folder}/{name}").check().stdout.split()[1:]
        for name in ("a", "big")
    )
    # What Apache's own DataNodes say of the same bytes.
    assert small == [
        "MD5-of-0MD5-of-512CRC32C",
        "00000200000000000000000099b8f3c0d52281798695087049cc63d2",
    ]
    assert large[0] == "MD5-of-2048MD5-of-512CRC32C"
    composite = hdfs(
        "dfs", "-D", "dfs.checksum.combine.mode=COMPOSITE_CRC", "-checksum", f"{folder}/big"
    ).check()
    assert composite.stdout.split()[1] == "COMPOSITE-CRC32C"


def test_find_and_text_and_df(hdfs: Shell, folder: str, local: Path) -> None:
    hdfs("dfs", "-put", str(local), f"{folder}/a.txt").check()
    assert hdfs("dfs", "-find", folder, "-name", "*.txt").check().stdout.strip() == (
        f"{folder}/a.txt"
    )
    assert hdfs("dfs", "-text", f"{folder}/a.txt").check().stdout == local.read_text()
    assert "Filesystem" in hdfs("dfs", "-df", "/").check().stdout


def test_the_same_shell_over_webhdfs(
    hdfs: Shell, dfs: FileSystem, folder: str, local: Path, tmp_path: Path
) -> None:
    web = f"webhdfs://{dfs.http_address}{folder}"
    hdfs("dfs", "-mkdir", "-p", f"{web}/d").check()
    hdfs("dfs", "-put", str(local), f"{web}/d/a").check()
    hdfs("dfs", "-appendToFile", str(local), f"{web}/d/a").check()
    assert hdfs("dfs", "-cat", f"{web}/d/a").check().stdout == 2 * local.read_text()
    hdfs("dfs", "-get", f"{web}/d/a", str(tmp_path / "back")).check()
    assert (tmp_path / "back").read_text() == 2 * local.read_text()
    hdfs("dfs", "-mv", f"{web}/d/a", f"{web}/d/b").check()
    listed = hdfs("dfs", "-ls", "-R", web).check().stdout.splitlines()
    assert [line.split()[-1] for line in listed] == [f"{web}/d", f"{web}/d/b"]
    hdfs("dfs", "-setrep", "2", f"{web}/d/b").check()
    hdfs("dfs", "-chmod", "640", f"{web}/d/b").check()
    stat = hdfs("dfs", "-stat", "%b %r %a %F", f"{web}/d/b").check().stdout.strip()
    assert stat == "12000 2 640 regular file"
    hdfs("dfs", "-setfacl", "-m", "user:eve:r--", f"{web}/d/b").check()
    assert "user:eve:r--" in hdfs("dfs", "-getfacl", f"{web}/d/b").check().stdout
    for name in ("a", "b"):
        hdfs("dfs", "-setfattr", "-n", f"user.{name}", "-v", name, f"{web}/d/b").check()
    assert 'user.b="b"' in hdfs("dfs", "-getfattr", "-n", "user.b", f"{web}/d/b").check().stdout
    shown = hdfs("dfs", "-checksum", f"{web}/d/b").check().stdout.split()[1:]
    assert shown == hdfs("dfs", "-checksum", f"{folder}/d/b").check().stdout.split()[1:]
    assert hdfs("dfs", "-count", web).check().stdout.split()[:3] == ["2", "1", "12000"]
    hdfs("dfsadmin", "-allowSnapshot", folder).check()
    hdfs("dfs", "-createSnapshot", web, "s1").check()
    hdfs("dfs", "-mv", f"{web}/d/b", f"{web}/f").check()
    hdfs("dfs", "-createSnapshot", web, "s2").check()
    told = hdfs("webhdfs-calls", web, "s1", "s2").check().stdout.splitlines()
    both = [
        f"snapshottable: {folder} 2",
        f"snapshots: {folder}/.snapshot/s1 false;{folder}/.snapshot/s2 false",
        "difference: M\t.;M\t./d;R\t./d/b -> ./f",
        "policy: HOT",
        "token: AccessControlException",
        "attributes: user.a;user.b",
        "locations: 1",
        f"defaults: {MIB}",
        "status: true",
        "ec policy: IOException",
    ]
    assert [line for line in both if line not in told] == [], told
    (trash,) = [line for line in told if line.startswith("trash: ")]
    assert trash in ("trash: ", f"trash: /user/{getpass.getuser()}/.Trash")
    hdfs("dfs", "-deleteSnapshot", web, "s1").check()
    hdfs("dfs", "-deleteSnapshot", web, "s2").check()
    hdfs("dfsadmin", "-disallowSnapshot", folder).check()
    hdfs("dfs", "-rm", "-r", "-skipTrash", f"{web}/d", f"{web}/f").check()
    assert hdfs("dfs", "-ls", web).check().stdout == ""
