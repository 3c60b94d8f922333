"""`headrace fs` on our file system, and on Apache's: the same commands, the same answers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hdfs_native
import pytest
from tests.interop.hdfs.conftest import FileSystem, Fs, Shell
from tests.interop.hdfs.real_hdfs import RealHdfs

HEADRACE = ("env", "--default-signal=INT,HUP", sys.executable, "-P", "-m", "headrace")
"""Whoever runs the tests may ignore signals (nohup, a job in the background), and a command that is
begun so goes on ignoring them."""


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


def test_a_put_touches_no_other_file(
    fs: Fs, dfs: FileSystem, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs("put", "-", f"{folder}/f._COPYING_", stdin=b"mine")
    fs("put", "-", f"{folder}/f", stdin=b"one")
    assert fs("cat", f"{folder}/f._COPYING_").stdout == b"mine"
    fs("chmod", "1777", folder)
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    if isinstance(dfs, RealHdfs):
        return  # It asks for no sticky bit where a rename replaces a file.
    refused = fs("put", "-f", "-", f"{folder}/f", stdin=b"two", status=1).stderr.decode()
    assert refused.startswith(f"headrace: {folder}/f: permission denied")
    assert refused.count("_COPYING_") == 0
    assert paths(fs("ls", folder, "--json")) == [f"{folder}/f", f"{folder}/f._COPYING_"]
    assert fs("cat", f"{folder}/f").stdout == b"one"


def test_what_can_not_be_put_is_told_and_the_rest_is_there(
    fs: Fs, folder: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_text("a")
    (tmp_path / "in/broken").symlink_to("gone")
    (tmp_path / "in/c:d").write_text("no such name there")
    (tmp_path / "in/link").symlink_to("a")
    (tmp_path / "in/loop").symlink_to(".")
    told = fs("put", str(tmp_path / "in"), f"{folder}/", status=1).stderr.decode()
    assert [line.split(": ")[1] for line in told.splitlines()] == [
        f"{tmp_path}/in/broken",
        f"{tmp_path}/in/loop",
        f"{tmp_path}/in/c:d",
    ]
    assert "names in the file system may not contain ':'" in told
    found = paths(fs("find", folder, "--type", "f", "--json"))
    assert found == [f"{folder}/in/a", f"{folder}/in/link"]


def test_one_path_that_fails_leaves_the_others(fs: Fs, folder: str, tmp_path: Path) -> None:
    good, bad, last = (f"{folder}/{name}" for name in ("a", "none", "z"))

    def refresh() -> None:
        for path in (good, last):
            fs("put", "-f", "-", path, stdin=path.encode())

    refresh()
    fs("mkdir", f"{folder}/to")
    here = str(tmp_path)
    for words in (
        ("cat", good, bad, last),
        ("ls", good, bad, last),
        ("du", good, bad, last),
        ("find", good, bad, last),
        ("checksum", good, bad, last),
        ("getfacl", good, bad, last),
        ("setfacl", "-m", "user:anna:r--", good, bad, last),
        ("chmod", "640", good, bad, last),
        ("chown", "anna", good, bad, last),
        ("setrep", "1", good, bad, last),
        ("cp", good, bad, last, f"{folder}/to"),
        ("get", good, bad, last, here),
        ("get", good, bad, last, "-"),
        ("mv", "--overwrite", good, bad, last, f"{folder}/to"),
        ("rm", good, bad, last),
    ):
        refresh()
        told = fs(*words, status=1)
        assert told.stderr.decode().count(f"headrace: {bad}: no such file or directory\n") == 1
        assert told.stderr.decode().count("headrace: ") == 1, words
        if words[0] in ("cat", "ls", "du", "find", "checksum", "getfacl") or words[-1] == "-":
            assert last.encode() in told.stdout, words
    assert (tmp_path / "z").read_text() == last
    assert paths(fs("ls", "-r", folder, "--json")) == [
        f"{folder}/to",
        f"{folder}/to/a",
        f"{folder}/to/z",
    ]
    fs("touch", good)
    told = fs("mkdir", f"{good}/x", f"{folder}/d", status=1).stderr.decode()
    assert told == f"headrace: {good}: not a directory\n"
    fs("touch", f"{good}/x", f"{folder}/d/t", status=1)
    assert fs("test", "-f", f"{folder}/d/t").stdout == b""
    told = fs("put", str(tmp_path / "gone"), str(tmp_path / "z"), f"{folder}/d", status=1).stderr
    assert b"there is no" in told
    fs("test", "-f", f"{folder}/d/z")


def test_what_may_not_be_read_is_told_and_the_rest_is_shown(
    fs: Fs, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs("put", "-", f"{folder}/a/f", stdin=b"f")
    fs("mkdir", "-m", "700", f"{folder}/secret")
    fs("touch", f"{folder}/secret/g")
    fs("put", "-", f"{folder}/z/h", stdin=b"h")
    monkeypatch.setenv("HADOOP_USER_NAME", "anna")
    seen = [folder, *(f"{folder}/{name}" for name in ("a", "a/f", "secret", "z", "z/h"))]
    for words, shown in ((("ls", "-R"), seen[1:]), (("find",), seen)):
        told = fs(*words, folder, "--json", status=1)
        assert paths(told) == shown
        assert told.stderr.decode().startswith(f"headrace: {folder}/secret: permission denied")
        assert told.stderr.decode().count("\n") == 1
    told = fs("get", folder, str(tmp_path / "out"), status=1)
    assert told.stderr.decode().startswith(f"headrace: {folder}/secret: permission denied")
    assert (tmp_path / "out/z/h").read_text() == "h"


def test_several_are_got_into_a_folder(fs: Fs, folder: str, tmp_path: Path) -> None:
    for name in "abc":
        fs("put", "-", f"{folder}/{name}", stdin=name.encode())
    fs("get", f"{folder}/a", f"{folder}/[bc]", str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]
    told = fs("get", f"{folder}/a", f"{folder}/b", str(tmp_path / "none"), status=2)
    assert b"is no folder" in told.stderr


def test_a_path_may_be_a_uri(fs: Fs, dfs: FileSystem, folder: str) -> None:
    fs("put", "-", f"{dfs.url}/{folder}//x/../f", stdin=b"x")
    assert fs("cat", f"{dfs.url}{folder}/*").stdout == fs("cat", f"{folder}/./f").stdout == b"x"
    told = fs("cat", f"hdfs://elsewhere.example:1{folder}/f", "--fs", dfs.url, status=2).stderr
    assert b"give a path, and --fs" in told


def test_stdin_append_truncate(fs: Fs, folder: str) -> None:
    fs("put", "-", f"{folder}/f", stdin=b"first ")
    fs("append", f"{folder}/f", stdin=b"second")
    assert fs("cat", f"{folder}/f").stdout == b"first second"
    fs("truncate", "0", f"{folder}/f")
    assert loaded(fs("stat", f"{folder}/f", "--json"))["length"] == 0


def test_a_cut_inside_a_block_is_done_when_the_command_is(fs: Fs, folder: str) -> None:
    fs("put", "-", f"{folder}/f", stdin=b"0123456789")
    fs("truncate", "4", f"{folder}/f")
    assert fs("cat", f"{folder}/f").stdout == b"0123"
    fs("append", f"{folder}/f", stdin=b"45")
    assert b"is being cut" in fs("truncate", "--no-wait", "5", f"{folder}/f").stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_put_that_is_ended_leaves_nothing(
    fs: Fs, dfs: FileSystem, folder: str, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [*HEADRACE, "fs", "put", "-", f"{folder}/f"],
        stdin=subprocess.PIPE,
        env={**os.environ, "HEADRACE_FS": dfs.url},
    )
    try:
        deadline = time.monotonic() + 30
        while not paths(fs("ls", folder, "--json")):
            assert time.monotonic() < deadline
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    finally:
        process.kill()
        process.communicate()
    assert paths(fs("ls", folder, "--json")) == []


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
    assert {(one["kind"], one["path"]) for one in changes} == {("M", "."), ("+", "new")}
    assert [one["name"] for one in loaded(fs("snapshot", "list", folder, "--json"))] == ["s1"]
    for words in (("mv", folder, f"{folder}-moved"), ("rm", "-r", folder)):
        told = fs(*words, status=1).stderr.decode()
        assert f"{folder}: can be neither moved nor deleted while {folder} has snapshots" in told
    fs("snapshot", "delete", folder, "s1")
    fs("snapshot", "disallow", folder)
    assert loaded(fs("quota", folder, "--names", "10", "--json"))["names_quota"] == 10
    assert loaded(fs("quota", folder, "--names", "-1", "--json"))["names_quota"] == -1
    assert loaded(fs("quota", folder, "--space", "10g", "--json"))["space_quota"] == 10 << 30


def test_the_root_loses_its_quota_of_names(fs: Fs) -> None:
    assert loaded(fs("quota", "/", "--names", "1m", "--json"))["names_quota"] == 1 << 20
    assert loaded(fs("quota", "/", "--names", "-1", "--json"))["names_quota"] == -1
    for nonsense in ("0", str(2**63 - 1)):
        assert b"can't be a quota" in fs("quota", "/", "--names", nonsense, status=2).stderr


def test_the_cluster(fs: Fs, dfs: FileSystem) -> None:
    report = loaded(fs("report", "--json"))
    assert len(report["datanodes"]) == 3
    assert all(node["live"] and not node["doubtful"] for node in report["datanodes"])
    assert b" s ago " in fs("report").stdout
    told = {"safe_mode": False, "reason": None, "bytes_of_unknown_blocks": 0}
    assert loaded(fs("safemode", "--json")) == told
    assert b"is HEALTHY" in fs("fsck", "--http", dfs.http_address, "/").stdout
    assert loaded(fs("open-files", "--json")) == []


def test_wrong_usage_and_unreachable_servers(fs: Fs) -> None:
    assert b"octal" in fs("chmod", "9", "/x", status=2).stderr
    gone = fs("report", "--fs", "hdfs://127.0.0.1:1", status=1)
    assert b"can't reach 127.0.0.1:1" in gone.stderr


def paths(done: "subprocess.CompletedProcess[bytes]") -> list[str]:
    return [one["path"] for one in loaded(done)]


def test_patterns_stand_for_what_they_match(fs: Fs, folder: str, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "c.log"):
        fs("put", "-", f"{folder}/{name}", stdin=name.encode())
    assert paths(fs("ls", f"{folder}/*.txt", "--json")) == [f"{folder}/a.txt", f"{folder}/b.txt"]
    assert fs("cat", f"{folder}/[bc].*").stdout == b"b.txtc.log"
    assert fs("cat", f"{folder}/{{c.log,a.txt}}").stdout == b"a.txtc.log"
    assert fs("get", f"{folder}/?.txt", "-").stdout == b"a.txtb.txt"
    fs("get", f"{folder}/*.txt", str(tmp_path))
    assert (tmp_path / "b.txt").read_text() == "b.txt"
    nothing = fs("rm", f"{folder}/*.csv", status=1)
    assert nothing.stderr.decode() == f"headrace: {folder}/*.csv: nothing matches\n"
    assert b"matches 2 paths" in fs("tail", f"{folder}/*.txt", status=2).stderr
    fs("mkdir", f"{folder}/d")
    fs("mv", f"{folder}/*.txt", f"{folder}/d")
    fs("rm", f"{folder}/d/[!a]*")
    assert paths(fs("ls", f"{folder}/d", "--json")) == [f"{folder}/d/a.txt"]
    fs("put", "-", f"{folder}/x[1]", stdin=b"odd")
    assert fs("cat", f"{folder}/x[1]").stdout == b"odd", "a name that looks like a pattern"


def test_copies_within(fs: Fs, folder: str) -> None:
    content = os.urandom(1_500_000)
    fs("put", "-", f"{folder}/a/f", stdin=content)
    fs("mkdir", f"{folder}/a/empty/deep")
    fs("cp", f"{folder}/a/f", f"{folder}/g")
    assert fs("cat", f"{folder}/g").stdout == content
    assert b"say -r" in fs("cp", f"{folder}/a", f"{folder}/b", status=2).stderr
    fs("cp", "-r", f"{folder}/a", f"{folder}/b")
    fs("cp", "-r", f"{folder}/a", f"{folder}/b")
    assert paths(fs("find", f"{folder}/b", "--json")) == [
        f"{folder}/b",
        f"{folder}/b/a",
        f"{folder}/b/a/empty",
        f"{folder}/b/a/empty/deep",
        f"{folder}/b/a/f",
        f"{folder}/b/empty",
        f"{folder}/b/empty/deep",
        f"{folder}/b/f",
    ]
    assert b"--overwrite" in fs("cp", f"{folder}/a/f", f"{folder}/g", status=1).stderr
    fs("cp", "-f", f"{folder}/a/f", f"{folder}/g")
    assert b"which is it or below it" in fs("cp", "-r", folder, f"{folder}/a", status=2).stderr


def test_empty_folders_travel_too(fs: Fs, folder: str, tmp_path: Path) -> None:
    (tmp_path / "in/empty").mkdir(parents=True)
    fs("put", str(tmp_path / "in"), folder)
    fs("get", f"{folder}/in", str(tmp_path / "out"))
    assert (tmp_path / "out/empty").is_dir()


def test_paths_begin_at_home(fs: Fs, folder: str) -> None:
    name = folder.strip("/")
    fs("put", "-", f"{name}/f", stdin=b"x")
    assert fs("cat", f"{name}/f").stdout == fs("cat", f"{name}/*").stdout == b"x"
    fs("truncate", "0", f"{name}/f")
    (home,) = {path.partition(f"/{name}")[0] for path in paths(fs("ls", name, "--json"))}
    assert home.startswith("/user/")
    told = fs("tail", f"{name}/none", status=1).stderr.decode()
    assert told == f"headrace: {home}/{name}/none: no such file or directory\n"
    fs("rm", "-r", name)


def test_find_head_test_and_count(fs: Fs, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fs("put", "-", f"{folder}/a/f.txt", stdin=b"0123456789")
    fs("touch", f"{folder}/g.log")
    assert fs("find", folder, "--name", "*.txt").stdout.decode() == f"{folder}/a/f.txt\n"
    assert paths(fs("find", folder, "--type", "d", "--json")) == [folder, f"{folder}/a"]
    assert fs("find", folder, "--older", "1h").stdout == b""
    assert len(fs("find", folder, "--newer", "1h").stdout.split()) == 4
    assert fs("head", "-c", "4", f"{folder}/a/f.txt").stdout == b"0123"
    fs("test", "-d", folder)
    fs("test", "-d", f"{folder}/g.log", status=1)
    fs("test", "-f", "-z", f"{folder}/g.log")
    fs("test", "-z", f"{folder}/a/f.txt", status=1)
    fs("test", "-e", f"{folder}/none", status=1)
    fs("test", folder, status=2)
    fs("chmod", "700", folder)
    with monkeypatch.context() as bob:
        bob.setenv("HADOOP_USER_NAME", "bob")
        refused = fs("test", "-e", f"{folder}/g.log", status=3)
    assert b"permission denied: bob" in refused.stderr
    assert loaded(fs("count", folder, "--json"))[0]["files"] == 2


def test_what_hdfs_users_type_is_taken(
    fs: Fs, folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(bytes(3 << 20))
    fs("mkdir", "-p", f"{folder}/d/e")
    fs("put", "--block-size", "2m", str(tmp_path / "f"), f"{folder}/d/f")
    assert loaded(fs("stat", f"{folder}/d/f", "--json"))["block_size"] == 2 << 20
    assert b"3.0 MiB" in fs("ls", "-h", f"{folder}/d").stdout
    assert b"3.0 MiB" in fs("du", "-s", "-h", folder).stdout
    assert paths(fs("ls", "-d", f"{folder}/d", "--json")) == [f"{folder}/d"]
    fs("touchz", f"{folder}/g")
    fs("mv", "-f", f"{folder}/g", f"{folder}/h")
    fs("rm", "-f", f"{folder}/none", f"{folder}/h", f"{folder}/*.none")
    assert paths(fs("ls", folder, "--json")) == [f"{folder}/d"]
    refused = fs("rmdir", f"{folder}/d", status=1).stderr.decode()
    assert refused == f"headrace: {folder}/d: the directory is not empty\n"
    refused = fs("rmdir", f"{folder}/d/f", status=1).stderr.decode()
    assert refused == f"headrace: {folder}/d/f: not a directory\n"
    fs("rmdir", f"{folder}/d/e")
    fs("setrep", "-w", "2", f"{folder}/d/f")
    assert b"3 DataNodes live" in fs("setrep", "-w", "9", f"{folder}/d/f", status=1).stderr
    fs("test", "-s", "-r", "-w", f"{folder}/d/f")
    assert fs("safemode", "wait").stdout == b"safe mode is off\n"
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    fs("test", "-r", f"{folder}/d/f")
    fs("test", "-w", f"{folder}/d/f", status=1)
    fs("test", "-r", f"{folder}/none", status=1)
    told = fs("ls", status=1).stderr.decode()
    assert told.startswith("headrace: /user/bob: no such file or directory. It is your home")
    assert "`headrace fs ls /`" in told


def test_ls_without_a_path_lists_ones_home(
    fs: Fs, client: hdfs_native.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.mkdirs("/user/carl/notes", 0o755, True)
    monkeypatch.setenv("HADOOP_USER_NAME", "carl")
    assert paths(fs("ls", "--json")) == ["/user/carl/notes"]


def test_whole_trees_change_hands(fs: Fs, folder: str) -> None:
    fs("put", "-", f"{folder}/d/f", stdin=b"x")
    fs("chmod", "-R", "u=rwX,go-rwx", f"{folder}/d")
    fs("chown", "-R", "anna:staff", f"{folder}/d")
    fs("setrep", "-R", "1", f"{folder}/d")
    found = loaded(fs("find", f"{folder}/d", "--json"))
    assert [(one["permission"], one["owner"], one["replication"]) for one in found] == [
        ("700", "anna", 0),
        ("600", "anna", 1),
    ]
    fs("chmod", "o+t", f"{folder}/d")
    assert loaded(fs("stat", f"{folder}/d", "--json"))["permission"] == "1700"


def entries(fs: Fs, path: str) -> list[str]:
    found: list[str] = loaded(fs("getfacl", path, "--json"))[0]["entries"]
    return found


def test_lists_of_who_may_do_what(fs: Fs, folder: str) -> None:
    fs("chmod", "750", folder)
    fs("touch", f"{folder}/f")
    plain = ["user::rwx", "group::r-x", "other::---"]
    assert entries(fs, folder) == plain
    fs("setfacl", "-R", "-m", "user:anna:rw-,default:user:anna:r--", folder)
    assert entries(fs, folder)[:5] == [
        "user::rwx",
        "user:anna:rw-",
        "group::r-x",
        "mask::rwx",
        "other::---",
    ]
    assert "default:user:anna:r--" in entries(fs, folder)
    assert "user:anna:rw-" in entries(fs, f"{folder}/f")
    fs("setfacl", "-k", folder)
    assert not [one for one in entries(fs, folder) if one.startswith("default:")]
    fs("setfacl", "-x", "user:anna", folder)
    assert "user:anna:rw-" not in entries(fs, folder)
    fs("setfacl", "--set", "user::rwx,user:bob:r--,group::r-x,other::---", folder)
    assert "user:bob:r--" in entries(fs, folder)
    assert b"# owner:" in fs("getfacl", folder).stdout
    fs("chmod", "+t", folder)
    assert b"\n# flags: --T\n" in fs("getfacl", folder).stdout
    fs("chmod", "o-t", folder)
    assert b"drwxr-x---+" in fs("ls", "-d", folder).stdout
    listed = {one["path"]: one["acl"] for one in loaded(fs("ls", "/", "--json"))}
    assert listed[folder]
    assert b"-rw-rw-r--+" in fs("ls", folder).stdout
    assert b"-rw-rw-r--+" in fs("ls", f"{folder}/f").stdout
    fs("setfacl", "-b", folder)
    assert entries(fs, folder) == plain
    fs("setfacl", "-m", "nonsense", folder, status=2)
    fs("setfacl", folder, status=2)


MISSING = [
    ("ls", "{}"),
    ("stat", "{}"),
    ("du", "{}"),
    ("find", "{}"),
    ("cat", "{}"),
    ("head", "{}"),
    ("tail", "{}"),
    ("get", "{}"),
    ("get", "{}", "-"),
    ("cp", "{}", "/copy-of-it"),
    ("mv", "{}", "/other-name"),
    ("rm", "{}"),
    ("rm", "-r", "{}"),
    ("append", "{}"),
    ("truncate", "0", "{}"),
    ("concat", "{}", "{}"),
    ("checksum", "{}"),
    ("chmod", "640", "{}"),
    ("chown", "anna", "{}"),
    ("setrep", "2", "{}"),
    ("xattr", "{}"),
    ("xattr", "{}", "user.a", "b"),
    ("getfacl", "{}"),
    ("setfacl", "-b", "{}"),
    ("quota", "{}"),
    ("quota", "{}", "--names", "10"),
    ("open-files", "{}"),
    ("recover-lease", "{}"),
    ("snapshot", "allow", "{}"),
    ("snapshot", "create", "{}"),
    ("snapshot", "list", "{}"),
]


@pytest.mark.parametrize("words", MISSING, ids=" ".join)
def test_a_missing_path_has_one_wording(fs: Fs, folder: str, words: tuple[str, ...]) -> None:
    missing = f"{folder}/none"
    refused = fs(*(word.format(missing) for word in words), status=1)
    assert refused.stderr.decode() == f"headrace: {missing}: no such file or directory\n"
    assert refused.stdout == b""


def test_other_refusals_have_one_wording(
    fs: Fs, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs("touch", f"{folder}/f")
    for words in (
        ("mkdir", f"{folder}/f/d"),
        ("touch", f"{folder}/f/g"),
        ("put", "-", f"{folder}/f/d/g"),
        ("quota", f"{folder}/f", "--names", "5"),
    ):
        assert fs(*words, status=1).stderr.decode() == f"headrace: {folder}/f: not a directory\n"
    for words in (("cat", folder), ("tail", folder), ("head", folder), ("truncate", "0", folder)):
        assert fs(*words, status=1).stderr.decode() == f"headrace: {folder}: is a directory\n"
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    for words in (("mkdir", f"{folder}/d"), ("rm", f"{folder}/f"), ("put", "-", f"{folder}/g")):
        told = fs(*words, status=1).stderr.decode()
        assert f"{words[-1]}: permission denied: bob has no write access to {folder} (" in told


def test_safe_mode_has_one_wording(fs: Fs, folder: str) -> None:
    fs("touch", f"{folder}/f")
    assert b"turned on manually" in fs("safemode", "enter").stdout
    try:
        for words in (
            ("mkdir", f"{folder}/d"),
            ("put", "-", f"{folder}/d"),
            ("touch", f"{folder}/f"),
            ("xattr", f"{folder}/f", "user.a", "b"),
        ):
            told = fs(*words, status=1).stderr
            assert b": the file system is in safe mode and takes no changes" in told
    finally:
        fs("safemode", "leave")


def test_nonsense_is_refused(fs: Fs, folder: str) -> None:
    fs("quota", folder, "--names", "-5", status=2)
    fs("quota", folder, "--space", "-2", status=2)
    for owner in (":", "", "anna:", "an na", "anna:a,b", "anna:b:c", "änna"):
        fs("chown", owner, folder, status=2)
    assert b"has no attribute user.a" in fs("xattr", folder, "user.a", status=1).stderr
    fs("xattr", folder, "--remove", status=2)


def test_a_writer_that_died_is_ended(fs: Fs, folder: str, client: hdfs_native.Client) -> None:
    path = f"{folder}/open"
    left = client.create(path)
    left.write(b"x" * 1000)
    left.hsync()
    told = fs("append", path, stdin=b"more", status=1).stderr.decode()
    assert told.startswith(f"headrace: {path}: it is being written by ")
    assert "`headrace fs recover-lease`" in told
    told = fs("checksum", path, status=1).stderr.decode()
    assert told.startswith(f"headrace: {path}: it is being written, and has no checksum")
    assert b"is closed" in fs("recover-lease", path).stderr
    fs("append", path, stdin=b"more")
    assert loaded(fs("stat", path, "--json"))["length"] == 1004


@pytest.fixture
def writer(client: hdfs_native.Client, folder: str) -> Iterator[hdfs_native.FileWriter]:
    writer = client.create(f"{folder}/open", hdfs_native.WriteOptions(block_size=1 << 20))
    yield writer
    writer.close()


def test_what_is_visible_of_a_file_that_is_being_written(
    fs: Fs, folder: str, writer: hdfs_native.FileWriter, tmp_path: Path
) -> None:
    path = f"{folder}/open"
    nothing = fs("cat", path)
    assert nothing.stdout == b""
    assert b"nothing of it is visible yet" in nothing.stderr
    content = os.urandom(100_000)
    writer.write(content)
    writer.hsync()
    assert fs("cat", path).stdout == content
    assert fs("tail", "-c", "10", path).stdout == content[-10:]
    assert fs("head", "-c", "10", path).stdout == content[:10]
    fs("get", path, str(tmp_path / "f"))
    assert (tmp_path / "f").read_bytes() == content
    more = os.urandom(1_000_000)
    writer.write(more)
    writer.hsync()
    assert fs("cat", path).stdout == content + more, "a block that is done, and one that is not"
    assert fs("tail", "-c", "100000", path).stdout == more[-100_000:], "from both"


def test_tail_follows_a_file(
    dfs: FileSystem, folder: str, writer: hdfs_native.FileWriter, tmp_path: Path
) -> None:
    words = ["fs", "tail", "-f", f"{folder}/open", "--fs", dfs.url]
    with (tmp_path / "out").open("wb") as out:
        tail = subprocess.Popen([*HEADRACE, *words], stdout=out)
    try:
        content = b""
        for size in (1000, 2_000_000, 10):
            more = os.urandom(size)
            writer.write(more)
            writer.hsync()
            content += more
            deadline = time.monotonic() + 30
            # What it begins with depends on when it looks first.
            while not (seen := (tmp_path / "out").read_bytes()).endswith(more[-100:]):
                assert time.monotonic() < deadline
                assert tail.poll() is None
                time.sleep(0.1)
            assert content.endswith(seen)
        tail.send_signal(signal.SIGINT)
        assert tail.wait(30) == 130
    finally:
        tail.kill()
        tail.wait(30)


def test_nobody_leaves_whom_the_rest_could_not_replace(fs: Fs, folder: str) -> None:
    fs("put", "-", f"{folder}/f", stdin=b"x")
    fs("setrep", "3", f"{folder}/f")
    nodes = [one["name"] for one in loaded(fs("report", "--json"))["datanodes"]]
    deadline = time.monotonic() + 30
    while b"blocks with 3 replicas" not in (
        told := fs("decommission", nodes[0], "--no-wait", status=1).stderr
    ):
        assert time.monotonic() < deadline, told
    assert b"--force" in told
    host = nodes[0].partition(":")[0]
    for command in ("decommission", "maintenance"):
        told = fs(command, host, "--no-wait", status=1).stderr
        assert all(name.encode() in told for name in nodes), "whom it takes"
        assert b"no DataNode would stay in service" in told
    told = fs("decommission", "nowhere", status=1).stderr
    assert nodes[0].encode() in told, "whom there is"
    assert {one["state"] for one in loaded(fs("report", "--json"))["datanodes"]} == {"normal"}


def test_all_commands_say_at_once_that_nobody_answers(fs: Fs, tmp_path: Path) -> None:
    local = tmp_path / "f"
    local.touch()
    for words in (
        ("ls",),
        ("stat", "/x"),
        ("cat", "/x"),
        ("put", str(local), "/x"),
        ("rm", "/x"),
        ("mkdir", "/x"),
        ("getfacl", "/x"),
        ("test", "-e", "/x"),
    ):
        began = time.monotonic()
        unknown = 3 if words[0] == "test" else 1
        gone = fs(*words, "--fs", "hdfs://127.0.0.1:1", status=unknown)
        assert time.monotonic() - began < 10
        assert b"can't reach 127.0.0.1:1" in gone.stderr
        assert b"`headrace up` starts it" in gone.stderr


@pytest.mark.java
@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 5])
def test_checksums_of_both_clients_agree(fs: Fs, hdfs: Shell, folder: str, blocks: int) -> None:
    data = os.urandom(blocks * (1 << 20) - 100 if blocks else 0)
    fs("put", "--block-size", str(1 << 20), "-", f"{folder}/f", stdin=data)
    theirs = hdfs("dfs", "-checksum", f"{folder}/f").check().stdout.split()[1:]
    ours = loaded(fs("checksum", f"{folder}/f", "--json"))[0]
    assert [ours["algorithm"], ours["checksum"]] == theirs
