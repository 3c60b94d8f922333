"""WebHDFS's operations asked of a NameNode in memory: all of Hadoop's names, shapes, refusals."""

import json
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from headrace.base.promise import Promise
from headrace.base.web import WebRequest, WebResponse
from headrace.namespace.http.fsck import Fsck
from headrace.namespace.http.webhdfs import WebHdfs
from headrace.namespace.requests import (
    AllowSnapshot,
    CreateSnapshot,
    Delete,
    Mkdirs,
    Rename2,
    SetXAttr,
)
from headrace.namespace.settings import NamespaceSettings
from headrace.namespace.values import XAttr
from headrace.testing.namenode import SUPERUSER, SimulatedNameNode

HADOOP_S = {
    "GET": """OPEN GETFILESTATUS LISTSTATUS LISTSTATUS_BATCH GETCONTENTSUMMARY GETQUOTAUSAGE
        GETFILECHECKSUM GETHOMEDIRECTORY GETDELEGATIONTOKEN GET_BLOCK_LOCATIONS
        GETFILEBLOCKLOCATIONS GETACLSTATUS GETXATTRS LISTXATTRS GETTRASHROOT GETTRASHROOTS
        GETALLSTORAGEPOLICY GETSTORAGEPOLICY GETECPOLICY GETECPOLICIES GETECCODECS CHECKACCESS
        GETSERVERDEFAULTS GETSNAPSHOTDIFF GETSNAPSHOTDIFFLISTING GETSNAPSHOTTABLEDIRECTORYLIST
        GETSNAPSHOTLIST GETLINKTARGET GETFILELINKSTATUS GETSTATUS""",
    "PUT": """CREATE MKDIRS CREATESYMLINK RENAME SETREPLICATION SETOWNER SETPERMISSION SETTIMES
        RENEWDELEGATIONTOKEN CANCELDELEGATIONTOKEN MODIFYACLENTRIES REMOVEACLENTRIES
        REMOVEDEFAULTACL REMOVEACL SETACL SETXATTR REMOVEXATTR SATISFYSTORAGEPOLICY
        SETSTORAGEPOLICY ENABLEECPOLICY DISABLEECPOLICY SETECPOLICY ALLOWSNAPSHOT DISALLOWSNAPSHOT
        CREATESNAPSHOT RENAMESNAPSHOT SETQUOTA SETQUOTABYSTORAGETYPE""",
    "POST": "APPEND CONCAT TRUNCATE UNSETECPOLICY UNSETSTORAGEPOLICY",
    "DELETE": "DELETE DELETESNAPSHOT",
}
"""The operations of WebHDFS in Hadoop 3.5.0."""


class Site:
    """The NameNode's web pages."""

    def __init__(self, **settings: Any) -> None:
        self.cluster = SimulatedNameNode(
            datanodes=3, settings=NamespaceSettings(superuser=SUPERUSER, **settings)
        )
        self.webhdfs = WebHdfs(self.cluster.namenode, lambda _: (), "127.0.0.1:8020")
        self.fsck = Fsck(self.cluster.namenode, lambda _: ())

    def ask(self, url: str, method: str = "GET", *, user: str = SUPERUSER) -> WebResponse:
        if "user.name=" not in url and user:
            url += ("&" if "?" in url else "?") + f"user.name={user}"
        path, _, query = url.partition("?")
        values: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            values.setdefault(name.lower(), value)
        page = self.fsck if path == "/fsck" else self.webhdfs
        full = path if path == "/fsck" else "/webhdfs/v1" + unquote(path)
        answer = page(WebRequest(method, full, values, query, "10.9.9.9", "nn:9870"))
        for _ in range(1_000):
            if not isinstance(answer, Promise) or answer.settled:
                break
            self.cluster.timers.run_due()
            self.cluster.settle()
        return answer.value() if isinstance(answer, Promise) else answer

    def get(self, url: str, **options: Any) -> Any:
        response = self.ask(url, **options)
        assert response.status == 200, response.body
        return json.loads(response.body)

    def refused(self, url: str, method: str = "GET", **options: Any) -> tuple[int, str]:
        response = self.ask(url, method, **options)
        assert response.status >= 400, response.body
        return response.status, json.loads(response.body)["RemoteException"]["exception"]


@pytest.fixture
def site() -> Site:
    return Site()


def test_every_operation_of_hadoop_has_an_answer(site: Site) -> None:
    """Each is done, or refused by what it lacks; none is unknown."""
    expected = {(verb, name) for verb, names in HADOOP_S.items() for name in names.split()}
    assert site.webhdfs.operations() == expected
    site.cluster.write("/f", 10)
    for verb, name in sorted(expected):
        response = site.ask(f"/f?op={name}", verb)
        assert response.status < 500, (name, response.body)
        assert b'"op": no' not in response.body, name
        for other in {"GET", "PUT", "POST", "DELETE"} - {verb}:
            assert site.ask(f"/f?op={name}", other).status == 400, (other, name)


def test_snapshots_are_listed_and_compared(site: Site) -> None:
    cluster = site.cluster
    cluster.write("/d/a", 10)
    cluster.write("/d/b", 10)
    assert site.get("/?op=GETSNAPSHOTTABLEDIRECTORYLIST") == {"SnapshottableDirectoryList": None}
    cluster.ask(AllowSnapshot("/d"))
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.ask(Delete("/d/a", False))
    cluster.ask(Rename2("/d/b", "/d/c"))
    cluster.ask(CreateSnapshot("/d", "s2"))
    (listed,) = site.get("/?op=GETSNAPSHOTTABLEDIRECTORYLIST")["SnapshottableDirectoryList"]
    assert (listed["parentFullPath"], listed["snapshotNumber"]) == ("/", 2)
    assert listed["dirStatus"]["pathSuffix"] == "d"
    assert listed["dirStatus"]["type"] == "DIRECTORY"
    found = site.get("/d?op=GETSNAPSHOTLIST")["SnapshotList"]
    assert [(s["dirStatus"]["pathSuffix"], s["deletionStatus"]) for s in found] == [
        ("s1", "ACTIVE"),
        ("s2", "ACTIVE"),
    ]
    assert [s["fullPath"] for s in found] == ["/d/.snapshot/s1", "/d/.snapshot/s2"]
    names = "oldsnapshotname=s1&snapshotname=s2"
    report = site.get(f"/d?op=GETSNAPSHOTDIFF&{names}")["SnapshotDiffReport"]
    assert (report["snapshotRoot"], report["fromSnapshot"], report["toSnapshot"]) == (
        "/d",
        "s1",
        "s2",
    )
    assert sorted(
        (e["type"], e["sourcePath"], e.get("targetPath")) for e in report["diffList"]
    ) == [
        ("DELETE", "a", None),
        ("MODIFY", "", None),
        ("RENAME", "b", "c"),
    ]
    part = site.get(f"/d?op=GETSNAPSHOTDIFFLISTING&{names}")["SnapshotDiffReportListing"]
    assert (part["isFromEarlier"], part["lastPath"], part["lastIndex"]) == (True, "", -1)
    assert [e["sourcePath"] for e in part["modifyList"]] == [""]
    assert {e["sourcePath"]: e.get("targetPath") for e in part["deleteList"]} == {
        "a": None,
        "b": "c",
    }
    assert site.refused("/d?op=GETSNAPSHOTDIFF&oldsnapshotname=no&snapshotname=s2")[0] == 403


def test_a_difference_of_many_parts_by_cursor() -> None:
    site = Site(listing_limit=2)
    cluster = site.cluster
    cluster.ask(Mkdirs("/d", 0o755))
    cluster.ask(AllowSnapshot("/d"))
    cluster.ask(CreateSnapshot("/d", "s1"))
    for index in range(5):
        cluster.write(f"/d/{index}")
    cluster.ask(CreateSnapshot("/d", "s2"))
    made, where, parts = [], "snapshotdiffstartpath=&snapshotdiffindex=-1", 0
    while parts < 10:
        parts += 1
        url = f"/d?op=GETSNAPSHOTDIFFLISTING&oldsnapshotname=s1&snapshotname=s2&{where}"
        part = site.get(url)["SnapshotDiffReportListing"]
        made += [entry["sourcePath"] for entry in part["createList"]]
        if part["lastIndex"] == -1 and not part["lastPath"]:
            break
        where = f"snapshotdiffstartpath={part['lastPath']}&snapshotdiffindex={part['lastIndex']}"
    assert sorted(made) == ["0", "1", "2", "3", "4"]
    assert parts > 2


def test_storage_policies_trash_and_what_is_not_there(site: Site) -> None:
    policies = site.get("/?op=GETALLSTORAGEPOLICY")["BlockStoragePolicies"]["BlockStoragePolicy"]
    assert [(policy["name"], policy["storageTypes"]) for policy in policies] == [("HOT", ["DISK"])]
    assert site.get("/?op=GETSTORAGEPOLICY")["BlockStoragePolicy"]["id"] == 7
    assert site.get("/?op=GETTRASHROOTS") == {"Paths": None}
    site.cluster.ask(Mkdirs(f"/user/{SUPERUSER}/.Trash", 0o700))
    site.cluster.ask(Mkdirs("/user/ann/.Trash", 0o700))
    (mine,) = site.get("/?op=GETTRASHROOTS")["Paths"]
    assert mine["path"] == f"/user/{SUPERUSER}/.Trash"
    assert len(site.get("/?op=GETTRASHROOTS&allusers=true")["Paths"]) == 2
    assert site.get("/?op=GETECPOLICY") is None
    assert site.get("/?op=GETDELEGATIONTOKEN&renewer=x") == {"Token": None}
    assert site.refused("/no?op=GETECPOLICY") == (404, "FileNotFoundException")
    for name, verb in (("SETECPOLICY", "PUT"), ("UNSETECPOLICY", "POST")):
        assert site.refused(f"/?op={name}", verb) == (400, "UnsupportedOperationException")
    url = "/?op=SETQUOTABYSTORAGETYPE&storagetype=SSD&storagespacequota=1"
    assert site.refused(url, "PUT")[0] in (400, 403)
    assert site.refused("/?op=SETQUOTABYSTORAGETYPE&storagetype=TAPE", "PUT")[0] == 400


def test_the_trash_s_interval_is_told() -> None:
    for minutes in (0, 1440):
        defaults = Site(trash_interval_min=minutes).get("/?op=GETSERVERDEFAULTS")
        assert defaults["FsServerDefaults"]["trashInterval"] == minutes


def test_several_attributes_by_name(site: Site) -> None:
    site.cluster.write("/f", 10)
    for name in ("a", "b", "c"):
        site.cluster.ask(SetXAttr("/f", XAttr(0, name, name.encode()), 3))
    found = site.get("/f?op=GETXATTRS&xattr.name=user.a&xattr.name=user.c&encoding=text")
    assert {one["name"]: one["value"] for one in found["XAttrs"]} == {
        "user.a": '"a"',
        "user.c": '"c"',
    }


def test_a_listing_longer_than_the_stack_is_deep() -> None:
    site = Site(listing_limit=1)
    for index in range(1_200):
        site.cluster.ask(Mkdirs(f"/d/{index:04d}", 0o755))
    entries = site.get("/d?op=LISTSTATUS")["FileStatuses"]["FileStatus"]
    assert len(entries) == 1_200


# -- who asks -----------------------------------------------------------------------------------


def test_only_a_superuser_acts_for_somebody_else(site: Site) -> None:
    site.cluster.ask(Mkdirs("/secret", 0o700))
    home = site.get("/?op=GETHOMEDIRECTORY&doas=ann")
    assert home == {"Path": "/user/ann"}
    assert site.refused("/secret?op=LISTSTATUS&doas=ann") == (403, "AccessControlException")
    refused = site.refused(f"/secret?op=LISTSTATUS&user.name=ann&doas={SUPERUSER}")
    assert refused == (403, "AuthorizationException")
    assert site.get("/?op=GETHOMEDIRECTORY&user.name=ann&doas=ann") == {"Path": "/user/ann"}
    assert site.get("/?op=GETHOMEDIRECTORY", user="") == {"Path": "/user/dr.who"}


def test_further_administrators_are_superusers() -> None:
    site = Site(administrators=frozenset({"ann"}))
    assert site.ask("/d?op=ALLOWSNAPSHOT&user.name=ann", "PUT").status == 404
    assert site.refused("/d?op=ALLOWSNAPSHOT&user.name=eve", "PUT")[0] == 403


def test_a_redirect_names_this_namenode_and_the_user_whatever_was_asked(site: Site) -> None:
    query = "op=CREATE&doas=ann&namenoderpcaddress=evil:1&noredirect=false&overwrite=true"
    response = site.ask(f"/a b?{query}", "PUT")
    assert response.status == 307
    target = urlsplit(response.headers["Location"])
    assert target.hostname in {node.uuid for node in site.cluster.nodes}
    assert parse_qsl(target.query) == [
        ("op", "CREATE"),
        ("overwrite", "true"),
        ("user.name", "ann"),
        ("namenoderpcaddress", "127.0.0.1:8020"),
    ]


# -- bad input ----------------------------------------------------------------------------------

BAD = {
    "no op": ("/f", "GET", 400),
    "empty op": ("/f?op=", "GET", 400),
    "unknown op": ("/f?op=FORMAT", "GET", 400),
    "wrong verb": ("/f?op=DELETE", "GET", 400),
    "dots": ("/%2e%2e/f?op=GETFILESTATUS", "GET", 400),
    "one dot": ("/a/./b?op=GETFILESTATUS", "GET", 400),
    "NUL": ("/a%00b?op=GETFILESTATUS", "GET", 400),
    "a colon": ("/a:b?op=MKDIRS", "PUT", 400),
    "empty names": ("/a//b?op=MKDIRS", "PUT", 400),
    "encoded twice": ("/%252e%252e/f?op=GETFILESTATUS", "GET", 404),
    "a backslash": ("/..%5c..%5cf?op=GETFILESTATUS", "GET", 404),
    "a semicolon": ("/f;x?op=GETFILESTATUS", "GET", 404),
    "an odd user": ("/?op=LISTSTATUS&user.name=a%20b", "GET", 400),
    "a user of markup": ("/?op=LISTSTATUS&user.name=<script>", "GET", 400),
    "an odd doas": ("/?op=LISTSTATUS&doas=../x", "GET", 400),
    "offset -1": ("/f?op=OPEN&offset=-1", "GET", 400),
    "offset beyond the end": ("/f?op=OPEN&offset=11", "GET", 403),
    "offset beyond 64 bits": ("/f?op=OPEN&offset=9223372036854775808", "GET", 400),
    "offset of many digits": (f"/f?op=OPEN&offset={'9' * 5000}", "GET", 400),
    "a number of Python's": ("/f?op=OPEN&offset=1_0", "GET", 400),
    "a number of other digits": ("/f?op=OPEN&offset=%D9%A3", "GET", 400),
    "permission 9999": ("/f?op=SETPERMISSION&permission=9999", "PUT", 400),
    "permission 0o7": ("/f?op=SETPERMISSION&permission=0o7", "PUT", 400),
    "permission -1": ("/f?op=SETPERMISSION&permission=-1", "PUT", 400),
    "times beyond 64 bits": (f"/f?op=SETTIMES&modificationtime={2**63}", "PUT", 400),
    "quota beyond 64 bits": (f"/?op=SETQUOTA&namespacequota={2**70}", "PUT", 400),
    "replication 0": ("/f?op=SETREPLICATION&replication=0", "PUT", 400),
    "replication 513": ("/f?op=SETREPLICATION&replication=513", "PUT", 403),
    "no owner": ("/f?op=SETOWNER", "PUT", 400),
    "a flag": ("/f?op=DELETE&recursive=maybe", "DELETE", 400),
    "an access": ("/f?op=CHECKACCESS&fsaction=rwxr", "GET", 400),
    "an acl": ("/f?op=SETACL&aclspec=nobody::rwx", "PUT", 400),
    "an attribute's name": ("/f?op=SETXATTR&xattr.name=plain&xattr.value=x", "PUT", 400),
    "an attribute's value": ("/f?op=SETXATTR&xattr.name=user.a&xattr.value=0xzz", "PUT", 400),
    "a snapshot's name": ("/d?op=CREATESNAPSHOT&snapshotname=a/b", "PUT", 400),
    "newlength": ("/f?op=TRUNCATE&newlength=-2", "POST", 400),
    "an inode's number": ("/.reserved/.inodes/%C2%B2?op=GETFILESTATUS", "GET", 404),
    "an inode's long number": (f"/.reserved/.inodes/{'9' * 200}?op=GETFILESTATUS", "GET", 404),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_changes_nothing(site: Site, name: str) -> None:
    site.cluster.write("/f", 10)
    site.cluster.ask(Mkdirs("/d", 0o755))
    site.cluster.ask(AllowSnapshot("/d"))
    before = site.cluster.ns.sequence
    url, verb, status = BAD[name]
    response = site.ask(url, verb)
    assert response.status == status, response.body
    assert "javaClassName" in json.loads(response.body)["RemoteException"]
    assert site.cluster.ns.sequence == before


# -- fsck ---------------------------------------------------------------------------------------


def test_fsck_lists_corrupt_blocks_until_there_are_no_more() -> None:
    site = Site()
    cluster = site.cluster
    for index in range(150):
        cluster.write(f"/d/{index:03d}", 10, replication=1)
    cluster.write("/good", 10)
    assert b"has no CORRUPT files" in site.ask("/fsck?ugi=hdfs&path=/&listcorruptfileblocks=1").body
    for node in cluster.nodes:
        for block_id in list(node.replicas):
            if cluster.ns.blocks[block_id].file.path() != "/good":  # type: ignore[union-attr]
                node.lose(block_id)
    cookie, found, asked = "", [], 0
    while asked < 10:
        asked += 1
        url = f"/fsck?ugi=hdfs&path=/&listcorruptfileblocks=1{cookie}"
        lines = site.ask(url).body.decode().splitlines()
        (told,) = [line for line in lines if line.startswith("Cookie:")]
        cookie = "&startblockafter=" + told.split("\t")[1]
        found += [line.split("\t")[1] for line in lines if line.startswith("blk_")]
        if any(line.endswith("has no more CORRUPT files") for line in lines):
            break
    assert found == [f"/d/{index:03d}" for index in range(150)]
    assert asked == 3
    assert site.ask("/fsck?ugi=hdfs&path=/").body.rstrip().endswith(b"is CORRUPT")
    cluster.ask(Mkdirs("/closed", 0o700))
    denied = site.ask("/fsck?ugi=eve&path=/").body.decode()
    assert 'Permission denied: user=eve, access=READ_EXECUTE, inode="/closed"' in denied
    assert denied.rstrip().endswith("Fsck on path '/' FAILED")
    assert "is CORRUPT" in site.ask("/fsck?ugi=eve&path=/d").body.decode()
