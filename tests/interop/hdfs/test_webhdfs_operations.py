"""WebHDFS's operations by plain HTTP: each acts, and what it did is looked at by another one."""

import getpass
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.hdfs.conftest import FileSystem
from tests.interop.hdfs.real_hdfs import RealHdfs
from tests.interop.hdfs.web_calls import Answer, Web

SUPERUSER = getpass.getuser()
NOT_SET = -1
MIB = 1 << 20
WAIT_S = 20.0


@pytest.fixture
def web(dfs: FileSystem) -> Web:
    return Web(dfs.http_url, SUPERUSER)


@pytest.fixture
def eve(dfs: FileSystem) -> Web:
    """Somebody else."""
    return Web(dfs.http_url, "eve")


@pytest.fixture
def file(web: Web, folder: str) -> str:
    path = f"{folder}/f"
    assert web.write(path, b"hello", permission="640").status == 201
    return path


@pytest.fixture
def is_apache(dfs: FileSystem) -> bool:
    return isinstance(dfs, RealHdfs)


def done(answer: Answer) -> None:
    assert (answer.status, answer.body) == (200, b""), answer


def names(web: Web, path: str) -> list[str]:
    return [entry["pathSuffix"] for entry in web.shown(path, "LISTSTATUS")["FileStatus"]]


def eventually(look: Callable[[], Any], expected: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while (found := look()) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


# -- access -------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["r--", "rw-", "-w-", "rwx"])
def test_access_is_allowed_or_refused(web: Web, eve: Web, file: str, action: str) -> None:
    done(web.get(file, "CHECKACCESS", fsaction=action))
    assert eve.get(file, "CHECKACCESS", fsaction=action).refusal == (403, "AccessControlException")
    done(web.put(file, "SETPERMISSION", permission="647"))
    done(eve.get(file, "CHECKACCESS", fsaction=action))


def test_access_to_what_is_not_there(web: Web, folder: str) -> None:
    found = web.get(f"{folder}/no", "CHECKACCESS", fsaction="r--").refusal
    assert found == (404, "FileNotFoundException")


def test_entries_of_an_acl_go_one_by_one_and_all(web: Web, eve: Web, folder: str) -> None:
    path = f"{folder}/d"
    web.put(path, "MKDIRS", permission="750")
    spec = "user:eve:r-x,user:ann:rwx,default:user:eve:rwx,default:group::r-x"
    done(web.put(path, "MODIFYACLENTRIES", aclspec=spec))
    assert eve.get(path, "LISTSTATUS").status == 200

    def entries() -> set[str]:
        return set(web.shown(path, "GETACLSTATUS")["entries"])

    assert {"user:eve:r-x", "user:ann:rwx", "default:user:eve:rwx"} <= entries()
    done(web.put(path, "REMOVEACLENTRIES", aclspec="user:eve:"))
    assert eve.get(path, "LISTSTATUS").refusal == (403, "AccessControlException")
    assert "user:ann:rwx" in entries()
    assert "user:eve:r-x" not in entries()
    done(web.put(path, "REMOVEDEFAULTACL"))
    assert not [entry for entry in entries() if entry.startswith("default:")]
    assert "user:ann:rwx" in entries()
    assert web.shown(path, "GETFILESTATUS")["aclBit"] is True
    done(web.put(path, "REMOVEACL"))
    assert entries() == set()
    status = web.shown(path, "GETFILESTATUS")
    assert (status.get("aclBit", False), status["permission"]) == (False, "750")


def test_an_attribute_is_taken_away(web: Web, eve: Web, file: str) -> None:
    for name in ("user.a", "user.b"):
        done(web.put(file, "SETXATTR", xattr_name=name, xattr_value='"x"', flag="CREATE"))
    assert eve.put(file, "REMOVEXATTR", xattr_name="user.a").refusal[0] == 403
    done(web.put(file, "REMOVEXATTR", xattr_name="user.a"))
    assert web.shown(file, "LISTXATTRS") == '["user.b"]'
    assert web.put(file, "REMOVEXATTR", xattr_name="user.a").refusal == (403, "IOException")
    gone = web.get(file, "GETXATTRS", xattr_name="user.a", encoding="hex").refusal
    assert gone == (403, "XAttrNotFoundException")


# -- links --------------------------------------------------------------------------------------


def test_a_link_leads_to_its_target(web: Web, folder: str, file: str, is_apache: bool) -> None:
    link = f"{folder}/below/link"
    if is_apache:  # they are off there
        made = web.put(link, "CREATESYMLINK", destination=file, createparent="true")
        assert made.refusal == (400, "UnsupportedOperationException")
        return
    refused = web.put(link, "CREATESYMLINK", destination=file).refusal
    assert refused == (404, "FileNotFoundException")
    done(web.put(link, "CREATESYMLINK", destination=file, createparent="true"))
    assert web.shown(link, "GETLINKTARGET") == file
    itself = web.shown(link, "GETFILELINKSTATUS")
    assert (itself["type"], itself["symlink"]) == ("SYMLINK", file)
    target = web.shown(file, "GETFILELINKSTATUS")
    assert (target["type"], target["length"]) == ("FILE", 5)
    assert "symlink" not in target
    assert web.get(link, "GETFILESTATUS").status in (200, 403)
    assert web.get(file, "GETLINKTARGET").status >= 400
    gone = web.get(f"{folder}/no", "GETLINKTARGET").refusal
    assert gone == (404, "FileNotFoundException")


# -- quotas and policies ------------------------------------------------------------------------


def test_quotas_are_set_used_and_lifted(web: Web, eve: Web, folder: str) -> None:
    path = f"{folder}/d"
    web.put(path, "MKDIRS")
    assert eve.put(path, "SETQUOTA", namespacequota=1).refusal == (403, "AccessControlException")
    done(web.put(path, "SETQUOTA", namespacequota=3, storagespacequota=4 * MIB))
    assert web.write(f"{path}/f", b"12345", replication=2).status == 201
    usage = web.shown(path, "GETQUOTAUSAGE")
    assert (usage["fileAndDirectoryCount"], usage["quota"]) == (2, 3)
    assert (usage["spaceConsumed"], usage["spaceQuota"]) == (10, 4 * MIB)
    assert web.put(f"{path}/g", "MKDIRS").json == {"boolean": True}
    refused = web.put(f"{path}/h", "MKDIRS").refusal
    assert refused == (403, "NSQuotaExceededException")
    # What is not named stays as it is.
    done(web.put(path, "SETQUOTA", namespacequota=10))
    assert web.shown(path, "GETQUOTAUSAGE")["spaceQuota"] == 4 * MIB
    assert web.write(f"{path}/big", bytes(3 * MIB), replication=2).status == 403
    done(web.put(path, "SETQUOTA", namespacequota=NOT_SET, storagespacequota=NOT_SET))
    usage = web.shown(path, "GETQUOTAUSAGE")
    assert (usage["quota"], usage["spaceQuota"]) == (NOT_SET, NOT_SET)


def test_quotas_by_type_of_storage(web: Web, eve: Web, folder: str, is_apache: bool) -> None:
    query = {"storagetype": "SSD", "storagespacequota": MIB}
    assert eve.put(folder, "SETQUOTABYSTORAGETYPE", **query).status == 403
    answer = web.put(folder, "SETQUOTABYSTORAGETYPE", **query)
    if is_apache:
        done(answer)
        assert web.shown(folder, "GETQUOTAUSAGE")["typeQuota"]["SSD"]["quota"] == MIB
    else:  # all storages are disks
        assert answer.refusal[0] in (400, 403)
        assert "SSD" not in web.shown(folder, "GETQUOTAUSAGE").get("typeQuota", {})
    assert web.put(folder, "SETQUOTABYSTORAGETYPE", storagetype="TAPE").refusal[0] == 400


def test_a_storage_policy_is_set_and_unset(web: Web, eve: Web, folder: str) -> None:
    path = f"{folder}/d"
    web.put(path, "MKDIRS")
    assert web.shown(path, "GETFILESTATUS")["storagePolicy"] == 0
    assert eve.put(path, "SETSTORAGEPOLICY", storagepolicy="HOT").refusal[0] == 403
    done(web.put(path, "SETSTORAGEPOLICY", storagepolicy="HOT"))
    assert web.shown(path, "GETSTORAGEPOLICY")["name"] == "HOT"
    assert web.shown(path, "GETFILESTATUS")["storagePolicy"] == 7
    assert web.put(path, "SETSTORAGEPOLICY", storagepolicy="NONE_SUCH").refusal[0] in (400, 403)
    assert eve.post(path, "UNSETSTORAGEPOLICY").refusal[0] == 403
    done(web.post(path, "UNSETSTORAGEPOLICY"))
    assert web.shown(path, "GETFILESTATUS")["storagePolicy"] == 0


# -- names and lengths --------------------------------------------------------------------------


def test_the_trash_root_is_the_asking_user_s(web: Web, eve: Web, folder: str) -> None:
    assert web.shown(folder, "GETTRASHROOT") == f"/user/{SUPERUSER}/.Trash"
    assert eve.shown("/", "GETTRASHROOT") == "/user/eve/.Trash"


def test_a_rename_by_its_options(web: Web, folder: str) -> None:
    for name, data in (("a", b"1"), ("b", b"22"), ("c", b"333")):
        web.write(f"{folder}/{name}", data)
    a, b, c = (f"{folder}/{name}" for name in "abc")
    assert web.put(a, "RENAME", destination=b).json == {"boolean": False}
    refused = web.put(a, "RENAME", destination=b, renameoptions="NONE").refusal
    assert refused == (403, "FileAlreadyExistsException")
    done(web.put(a, "RENAME", destination=b, renameoptions="OVERWRITE"))
    assert names(web, folder) == ["b", "c"]
    assert web.read(b) == b"1"
    done(web.put(b, "RENAME", destination=f"{folder}/d", renameoptions="NONE"))
    done(web.put(c, "RENAME", destination=f"{folder}/e", renameoptions="TO_TRASH"))
    assert names(web, folder) == ["d", "e"]
    gone = web.put(a, "RENAME", destination=f"{folder}/x", renameoptions="NONE").refusal
    assert gone == (404, "FileNotFoundException")
    for options in ("SIDEWAYS", "OVERWRITE,SIDEWAYS"):
        answer = web.put(f"{folder}/d", "RENAME", destination=f"{folder}/e", renameoptions=options)
        assert answer.refusal == (400, "IllegalArgumentException"), options
    assert web.read(f"{folder}/e") == b"333"


def test_into_the_trash_needs_what_a_deletion_needs(web: Web, eve: Web, folder: str) -> None:
    """A directory that is not empty, and not eve's to empty."""
    mine = f"{folder}/eve"
    web.put(mine, "MKDIRS", permission="755")
    done(web.put(mine, "SETOWNER", owner="eve"))
    web.put(f"{mine}/d", "MKDIRS", permission="755")
    web.write(f"{mine}/d/f", b"x")
    target = f"{mine}/.Trash"
    refused = eve.put(f"{mine}/d", "RENAME", destination=target, renameoptions="TO_TRASH")
    assert refused.refusal == (403, "AccessControlException")
    done(eve.put(f"{mine}/d", "RENAME", destination=target, renameoptions="NONE"))


def test_files_are_joined(web: Web, eve: Web, folder: str) -> None:
    parts = [os.urandom(MIB), os.urandom(MIB), os.urandom(1000)]
    for name, data in zip("abc", parts, strict=True):
        web.write(f"{folder}/{name}", data)
    sources = f"{folder}/b,{folder}/c"
    assert eve.post(f"{folder}/a", "CONCAT", sources=sources).refusal[0] == 403
    done(web.post(f"{folder}/a", "CONCAT", sources=sources))
    assert names(web, folder) == ["a"]
    assert web.read(f"{folder}/a") == b"".join(parts)
    assert web.post(f"{folder}/a", "CONCAT", sources=f"{folder}/no").refusal[0] in (403, 404)
    assert web.post(f"{folder}/a", "CONCAT").refusal[0] == 400


def test_a_file_is_cut(web: Web, eve: Web, folder: str) -> None:
    path, data = f"{folder}/f", os.urandom(2 * MIB + 500)
    web.write(path, data)
    assert eve.post(path, "TRUNCATE", newlength=0).refusal == (403, "AccessControlException")
    assert web.post(path, "TRUNCATE", newlength=2 * MIB).json == {"boolean": True}
    assert web.read(path) == data[: 2 * MIB]
    assert web.post(path, "TRUNCATE", newlength=MIB + 7).json == {"boolean": False}
    # Its last block is being cut; nobody appends meanwhile.
    eventually(lambda: web.append(path, b"end").status, 200)
    assert web.read(path) == data[: MIB + 7] + b"end"
    assert web.post(path, "TRUNCATE", newlength=2 * MIB).status >= 400
    assert web.post(path, "TRUNCATE", newlength=0).json == {"boolean": True}
    assert web.shown(path, "GETFILESTATUS")["length"] == 0


def test_two_cuts_at_once_are_two_writers(web: Web, folder: str) -> None:
    """The second must not pass for the first one's own."""
    path, data = f"{folder}/f", os.urandom(1000)
    web.write(path, data)
    assert web.post(path, "TRUNCATE", newlength=900).json == {"boolean": False}
    second = web.post(path, "TRUNCATE", newlength=800)
    if second.status != 200:
        status, name = second.refusal
        assert status == 403
        assert name in ("RecoveryInProgressException", "AlreadyBeingCreatedException")
        assert "current lease holder" not in second.json["RemoteException"]["message"]
        eventually(lambda: web.post(path, "TRUNCATE", newlength=800).status, 200)
    eventually(lambda: web.append(path, b"!").status, 200)
    assert web.read(path) == data[:800] + b"!"
