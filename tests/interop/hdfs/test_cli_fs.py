"""`headrace fs` on our file system, and on Apache's: the same commands, the same answers."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.interop.hdfs.conftest import FileSystem, Fs, Shell


def loaded(done: "subprocess.CompletedProcess[bytes]") -> Any:
    return json.loads(done.stdout)


def test_put_cat_tail_get(fs: Fs, folder: str, tmp_path: Path) -> None:
    local = tmp_path / "f"
    local.write_bytes(os.urandom(3_000_000))
    fs("put", str(local), f"{folder}/")
    assert fs("cat", f"{folder}/f").stdout == local.read_bytes()
    assert fs("tail", "-c", "100", f"{folder}/f").stdout == local.read_bytes()[-100:]
    fs("get", f"{folder}/f", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == local.read_bytes()
    fs("get", f"{folder}/f", str(tmp_path / "back"), status=1)
    fs("put", str(local), f"{folder}/f", status=1)
    fs("put", "-f", str(local), f"{folder}/f")


def test_folders_travel_whole(fs: Fs, folder: str, tmp_path: Path) -> None:
    (tmp_path / "in/sub").mkdir(parents=True)
    (tmp_path / "in/a").write_text("a")
    (tmp_path / "in/sub/b").write_text("b")
    fs("chmod", "777", folder)
    fs("put", str(tmp_path / "in"), folder)
    made = [one for one in loaded(fs("ls", "-r", folder, "--json")) if one["type"] == "directory"]
    assert [one["permission"] for one in made] == ["755", "755"], "not those of the folder above"
    fs("get", f"{folder}/in", str(tmp_path / "out"))
    assert (tmp_path / "out/a").read_text() == "a"
    assert (tmp_path / "out/sub/b").read_text() == "b"


def test_stdin_append_truncate(fs: Fs, folder: str) -> None:
    fs("put", "-", f"{folder}/f", stdin=b"first ")
    fs("append", f"{folder}/f", stdin=b"second")
    assert fs("cat", f"{folder}/f").stdout == b"first second"
    fs("truncate", "0", f"{folder}/f")
    assert loaded(fs("stat", f"{folder}/f", "--json"))["length"] == 0


def test_names(fs: Fs, folder: str) -> None:
    fs("mkdir", f"{folder}/d/e", "-m", "700")
    fs("touch", f"{folder}/f")
    fs("mv", f"{folder}/f", f"{folder}/d")
    listed = loaded(fs("ls", "-r", folder, "--json"))
    assert [(one["path"], one["type"]) for one in listed] == [
        (f"{folder}/d", "directory"),
        (f"{folder}/d/e", "directory"),
        (f"{folder}/d/f", "file"),
    ]
    assert f"{folder}/d".encode() in fs("ls", folder).stdout
    fs("rm", f"{folder}/d", status=2)
    fs("rm", "-r", f"{folder}/d")
    missing = fs("ls", f"{folder}/d", status=1)
    assert missing.stderr.decode().count("\n") == 1


def test_what_was_not_done_is_not_called_done(fs: Fs, folder: str, tmp_path: Path) -> None:
    for words in (("rm", "-r", f"{folder}/none"), ("rm", f"{folder}/none"), ("rm", "-r", "/")):
        refused = fs(*words, status=1)
        assert b"deleted" not in refused.stdout
        assert refused.stderr.decode().count("\n") == 1
    assert b"is no file" in fs("setrep", "2", f"{folder}/none", status=1).stderr
    fs("touch", f"{folder}/f")
    missing = str(tmp_path / "none")
    assert b"there is no file" in fs("append", f"{folder}/f", missing, status=2).stderr


def test_attributes(fs: Fs, folder: str) -> None:
    fs("put", "-", f"{folder}/f", stdin=b"x" * 1000)
    fs("chmod", "640", f"{folder}/f")
    fs("chown", "anna:staff", f"{folder}/f")
    fs("setrep", "2", f"{folder}/f")
    found = loaded(fs("stat", f"{folder}/f", "--json"))
    assert (found["permission"], found["owner"], found["group"]) == ("640", "anna", "staff")
    assert found["replication"] == 2
    assert loaded(fs("du", folder, "--json"))[0]["space"] == 2000
    fs("xattr", f"{folder}/f", "user.origin", "sensors")
    assert loaded(fs("xattr", f"{folder}/f", "--json")) == {"user.origin": "sensors"}
    fs("xattr", f"{folder}/f", "user.origin", "--remove")
    assert loaded(fs("xattr", f"{folder}/f", "--json")) == {}


def test_checksum_is_that_of_hadoop(fs: Fs, folder: str) -> None:
    fs("put", "-", f"{folder}/f", stdin=b"hello\n" * 1000)
    assert loaded(fs("checksum", f"{folder}/f", "--json"))[0] == {
        "path": f"{folder}/f",
        "algorithm": "MD5-of-0MD5-of-512CRC32C",
        "checksum": "00000200000000000000000099b8f3c0d52281798695087049cc63d2",
    }


def test_snapshots_and_quotas(fs: Fs, folder: str) -> None:
    fs("snapshot", "allow", folder)
    assert fs("snapshot", "create", folder, "s1").stdout.decode().strip() == (
        f"{folder}/.snapshot/s1"
    )
    fs("touch", f"{folder}/new")
    changes = loaded(fs("snapshot", "diff", folder, "s1", "--json"))
    assert {(one["kind"], one["path"]) for one in changes} == {("M", ""), ("+", "new")}
    assert [one["name"] for one in loaded(fs("snapshot", "list", folder, "--json"))] == ["s1"]
    fs("snapshot", "delete", folder, "s1")
    fs("snapshot", "disallow", folder)
    assert loaded(fs("quota", folder, "--names", "10", "--json"))["names_quota"] == 10
    assert loaded(fs("quota", folder, "--names", "-1", "--json"))["names_quota"] == -1


def test_the_cluster(fs: Fs, dfs: FileSystem) -> None:
    report = loaded(fs("report", "--json"))
    assert len(report["datanodes"]) == 3
    assert all(node["live"] for node in report["datanodes"])
    assert loaded(fs("safemode", "--json")) == {"safe_mode": False}
    assert b"is HEALTHY" in fs("fsck", "--http", dfs.http_address, "/").stdout
    assert loaded(fs("open-files", "--json")) == []


def test_wrong_usage_and_unreachable_servers(fs: Fs) -> None:
    assert b"octal" in fs("chmod", "9", "/x", status=2).stderr
    gone = fs("report", "--fs", "hdfs://127.0.0.1:1", status=1)
    assert b"can't reach 127.0.0.1:1" in gone.stderr


@pytest.mark.java
@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 5])
def test_checksums_of_both_clients_agree(fs: Fs, hdfs: Shell, folder: str, blocks: int) -> None:
    data = os.urandom(blocks * (1 << 20) - 100 if blocks else 0)
    fs("put", "--block-size", str(1 << 20), "-", f"{folder}/f", stdin=data)
    theirs = hdfs("dfs", "-checksum", f"{folder}/f").check().stdout.split()[1:]
    ours = loaded(fs("checksum", f"{folder}/f", "--json"))[0]
    assert [ours["algorithm"], ours["checksum"]] == theirs
