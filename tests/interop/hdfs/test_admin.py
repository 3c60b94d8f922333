"""`hdfs dfsadmin`, `fsck`, snapshots and the other tools of an operator."""

import json
import re
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.interop.hdfs.conftest import FileSystem, Shell

from headrace.testing.filesystem import LocalFileSystem, LocalProcess

pytestmark = pytest.mark.java

WAIT_S = 40.0


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local.txt"
    path.write_text("hello\n" * 1000)
    return path


def test_report(hdfs: Shell) -> None:
    report = hdfs("dfsadmin", "-report").check().stdout
    assert "Live datanodes (3):" in report
    assert "Missing blocks: 0" in report
    assert report.count("Decommission Status : Normal") == 3
    topology = hdfs("dfsadmin", "-printTopology").check().stdout
    assert topology.count("In Service") == 3


def test_safe_mode_refuses_writes(hdfs: Shell, folder: str) -> None:
    assert "OFF" in hdfs("dfsadmin", "-safemode", "get").check().stdout
    assert "ON" in hdfs("dfsadmin", "-safemode", "enter").check().stdout
    try:
        refused = hdfs("dfs", "-mkdir", f"{folder}/d")
        assert refused.status == 1
        assert "Name node is in safe mode" in refused.stderr
        hdfs("dfs", "-ls", folder).check()
    finally:
        assert "OFF" in hdfs("dfsadmin", "-safemode", "leave").check().stdout
    hdfs("dfs", "-mkdir", f"{folder}/d").check()


def test_everybody_may_check_what_he_may_read(hdfs: Shell, folder: str, local: Path) -> None:
    hdfs("dfs", "-mkdir", f"{folder}/closed").check()
    hdfs("dfs", "-put", str(local), f"{folder}/f").check()
    assert "is HEALTHY" in hdfs("fsck", folder, user="eve").check().stdout
    hdfs("dfs", "-chmod", "700", f"{folder}/closed").check()
    refused = hdfs("fsck", folder, user="eve")
    assert "Permission denied: user=eve, access=READ_EXECUTE" in refused.stdout
    assert f"Fsck on path '{folder}' FAILED" in refused.stdout


def test_only_the_superuser_administers(hdfs: Shell, dfs: FileSystem) -> None:
    refused = hdfs("dfsadmin", "-safemode", "enter", user="eve")
    assert refused.status != 0
    assert "Superuser privilege is required" in refused.stderr
    namenode = dfs.url.removeprefix("hdfs://")
    for order in (
        ("-rollingUpgrade", "query"),
        ("-reconfig", "namenode", namenode, "properties"),
        ("-reconfig", "namenode", namenode, "start"),
        ("-setBalancerBandwidth", "1"),
        ("-metasave", "f"),
    ):
        refused = hdfs("dfsadmin", *order, user="eve")
        told = refused.stdout + refused.stderr
        assert "Superuser privilege is required" in told, order
    # What HDFS leaves to its service ACLs, which are off.
    hdfs("dfsadmin", "-refreshUserToGroupsMappings", user="eve").check()
    hdfs("dfsadmin", "-refreshCallQueue", user="eve").check()
    assert "OFF" in hdfs("dfsadmin", "-safemode", "get").check().stdout


def test_quotas(hdfs: Shell, folder: str, local: Path) -> None:
    hdfs("dfsadmin", "-setQuota", "3", folder).check()
    hdfs("dfs", "-mkdir", f"{folder}/1", f"{folder}/2").check()
    assert "quota" in hdfs("dfs", "-mkdir", f"{folder}/3").stderr
    shown = hdfs("dfs", "-count", "-q", folder).check().stdout.split()
    assert shown[:2] == ["3", "0"]
    hdfs("dfsadmin", "-clrQuota", folder).check()
    hdfs("dfsadmin", "-setSpaceQuota", "3m", folder).check()
    hdfs("dfs", "-put", str(local), f"{folder}/fits").check()
    refused = hdfs("dfs", "-put", str(local), f"{folder}/not")
    assert "quota" in refused.stderr
    hdfs("dfsadmin", "-clrSpaceQuota", folder).check()
    hdfs("dfs", "-put", "-f", str(local), f"{folder}/not").check()


def test_snapshots(hdfs: Shell, folder: str, local: Path) -> None:
    hdfs("dfs", "-put", str(local), f"{folder}/a").check()
    hdfs("dfs", "-put", str(local), f"{folder}/b").check()
    hdfs("dfsadmin", "-allowSnapshot", folder).check()
    assert hdfs("dfs", "-createSnapshot", folder, "s1").check().stdout.strip() == (
        f"Created snapshot {folder}/.snapshot/s1"
    )
    hdfs("dfs", "-rm", f"{folder}/a").check()
    # What only a snapshot has is counted, and may be left out.
    for words, used in ((("-s",), ["12000", "36000"]), (("-s", "-x"), ["6000", "18000"])):
        assert hdfs("dfs", "-du", *words, folder).check().stdout.split()[:2] == used
    hdfs("dfs", "-mv", f"{folder}/b", f"{folder}/c").check()
    hdfs("dfs", "-touchz", f"{folder}/new").check()
    hdfs("dfs", "-createSnapshot", folder, "s2").check()
    difference = hdfs("snapshotDiff", folder, "s1", "s2").check().stdout.splitlines()
    assert sorted(difference[1:]) == [
        "",
        "+\t./new",
        "-\t./a",
        "M\t.",
        "R\t./b -> ./c",
    ]
    back = hdfs("snapshotDiff", folder, "s2", "s1").check().stdout.splitlines()
    assert sorted(back[1:]) == ["", "+\t./a", "-\t./new", "M\t.", "R\t./c -> ./b"]
    assert hdfs("dfs", "-cat", f"{folder}/.snapshot/s1/a").check().stdout == local.read_text()
    assert folder in hdfs("lsSnapshottableDir").check().stdout
    listed = hdfs("lsSnapshot", folder).check().stdout
    assert f"{folder}/.snapshot/s1" in listed
    assert "cannot be deleted" in hdfs("dfs", "-rm", "-r", folder).stderr
    hdfs("dfs", "-renameSnapshot", folder, "s1", "first").check()
    hdfs("dfs", "-deleteSnapshot", folder, "first").check()
    hdfs("dfs", "-deleteSnapshot", folder, "s2").check()
    hdfs("dfsadmin", "-disallowSnapshot", folder).check()
    hdfs("dfs", "-rm", "-r", folder).check()


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(0.2)


def await_row(hdfs: Shell, words: tuple[str, ...], expected: list[str]) -> None:
    """What `cacheadmin` tells in its last line; DataNodes report with their heartbeats."""

    def is_told() -> bool:
        lines = hdfs("cacheadmin", *words).check().stdout.splitlines()
        return lines[-1].split() == expected

    eventually(is_told, " ".join(expected))


def jmx(node: LocalProcess) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"http://{node.where['http']}/jmx", timeout=10) as answer:
        beans: list[dict[str, Any]] = json.loads(answer.read())["beans"]
        return beans


def locked_kib(pid: int) -> int:
    """Memory that a process has locked, as the system tells it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmLck:")]
    return int(line.split()[1])


def test_cache_pools_and_directives(hdfs: Shell, dfs: FileSystem, folder: str, local: Path) -> None:
    pool = f"pool-{folder.rpartition('/')[2]}"
    hdfs("dfs", "-put", str(local), f"{folder}/f").check()
    owned = ("-owner", "ann", "-group", "staff", "-mode", "750", "-limit", "20000")
    hdfs("cacheadmin", "-addPool", pool, *owned).check()
    assert "already exists" in hdfs("cacheadmin", "-addPool", pool).stderr
    assert "Superuser" in hdfs("cacheadmin", "-addPool", f"{pool}-2", user="eve").stderr

    add = ("cacheadmin", "-addDirective", "-path", f"{folder}/f", "-pool", pool)
    added = hdfs(*add, "-replication", "2", user="ann").check().stdout
    directive = added.split()[-1]
    assert added == f"Added cache directive {directive}\n"
    assert "would exceed pool" in hdfs(*add, "-replication", "2").stderr
    assert "Permission denied while accessing pool" in hdfs(*add, user="eve").stderr
    is_ours = isinstance(dfs, LocalFileSystem)
    list_it = ("-listDirectives", "-stats", "-path", f"{folder}/f")
    held = ["12000", "1"] if is_ours else ["0", "0"]
    listed = [directive, pool, "2", "never", f"{folder}/f", "12000", held[0], "1", held[1]]
    await_row(hdfs, list_it, listed)
    if is_ours:
        assert sum(locked_kib(node.pid) for node in dfs.datanodes) == 2 * 8
        eventually(
            lambda: (
                hdfs("dfsadmin", "-report").check().stdout.count("Cache Used: 8192 (8 KB)") == 2
            ),
            "heartbeats tell how much is used",
        )
        beans = [bean for node in dfs.datanodes for bean in jmx(node) if "CacheUsed" in bean]
        assert sum(bean["CacheUsed"] for bean in beans) == 2 * 8192
        assert sum(bean["NumBlocksCached"] for bean in beans) == 2
    hidden = hdfs("cacheadmin", "-listDirectives", "-pool", pool, user="eve").check().stdout
    assert "Found 0 entries" in hidden

    change = ("cacheadmin", "-modifyDirective", "-id", directive)
    hdfs(*change, "-replication", "1", "-ttl", "1h").check()
    row = hdfs("cacheadmin", "-listDirectives", "-id", directive).check().stdout.split()
    assert "never" not in row
    hdfs("cacheadmin", "-modifyPool", pool, "-mode", "755", "-maxTtl", "2h").check()
    described = [pool, "ann", "staff", "rwxr-xr-x", "20000", "000:02:00:00.000", "1"]
    held = ["6000", "1"] if is_ours else ["0", "0"]
    stats = ["6000", held[0], "0", "1", held[1]]
    await_row(hdfs, ("-listPools", "-stats", pool), [*described, *stats])
    hdfs("cacheadmin", "-removeDirective", directive).check()
    hdfs("cacheadmin", "-removePool", pool).check()
    assert pool not in hdfs("cacheadmin", "-listPools").check().stdout
    if is_ours:
        eventually(lambda: not any(locked_kib(n.pid) for n in dfs.datanodes), "nothing is held")


def test_reconfiguration_tells_that_none_was(hdfs: Shell, dfs: FileSystem) -> None:
    namenode = ("dfsadmin", "-reconfig", "namenode", dfs.url.removeprefix("hdfs://"))
    assert "no task was found" in hdfs(*namenode, "status").check().stdout
    assert "properties" in hdfs(*namenode, "properties").check().stdout


def test_metasave(hdfs: Shell) -> None:
    hdfs("dfsadmin", "-metasave", "now.txt").check()


def test_fsck(hdfs: Shell, folder: str, local: Path) -> None:
    hdfs("dfs", "-put", str(local), f"{folder}/f").check()
    hdfs("dfs", "-setrep", "-w", "3", f"{folder}/f").check()
    text = hdfs("fsck", folder, "-files", "-blocks", "-locations").check().stdout
    assert "is HEALTHY" in text
    assert f"{folder}/f 6000 bytes" in text
    assert "len=6000 Live_repl=3" in text
    assert "Total blocks (validated):\t1" in text
    (block,) = re.findall(r"blk_\d+", text)
    one = hdfs("fsck", "-blockId", f"{block} blk_1").check().stdout
    assert f"Block belongs to: {folder}/f\n" in one
    assert one.count(" is HEALTHY") == 3
    assert "Block blk_1 does not exist" in one
    missing = hdfs("fsck", f"{folder}/nope")
    assert "does not exist" in missing.stdout + missing.stderr


def test_a_lost_block_is_told_and_never_read_as_something_else(
    hdfs: Shell, dfs: FileSystem, folder: str, local: Path
) -> None:
    whole = hdfs("fsck", "/", "-list-corruptfileblocks").check().stdout
    assert "has 0 CORRUPT blocks" in whole
    if not isinstance(dfs, LocalFileSystem):
        return
    hdfs("dfs", "-D", "dfs.replication=1", "-put", str(local), f"{folder}/f").check()
    try:
        text = hdfs("fsck", folder, "-files", "-blocks").check().stdout
        (block,) = re.findall(r"blk_\d+", text)
        for node in dfs.datanodes:
            for path in node.data.glob(f"data/current/BP-*/current/finalized/*/*/{block}*"):
                path.unlink()
        impatient = ("-D", "dfs.client.retry.window.base=10")
        read = hdfs("dfs", *impatient, "-cat", f"{folder}/f")
        assert (read.status, read.stdout) == (1, "")

        def listed() -> str:
            return hdfs("fsck", folder, "-list-corruptfileblocks").stdout

        eventually(lambda: "has 1 CORRUPT blocks" in listed(), "the NameNode knows")
        assert f"{block}\t{folder}/f" in listed()
        assert "is CORRUPT" in hdfs("fsck", folder).stdout
    finally:
        hdfs("dfs", "-rm", "-skipTrash", f"{folder}/f").check()
    assert "is HEALTHY" in hdfs("fsck", folder).check().stdout


def test_a_datanode_is_asked_where_it_is_called(hdfs: Shell, dfs: FileSystem) -> None:
    if not isinstance(dfs, LocalFileSystem):
        pytest.skip("Apache's DataNodes do not tell their ports here")
    ipc = str(dfs.datanodes[0].where["ipc"])
    assert "Software version" in hdfs("dfsadmin", "-getDatanodeInfo", ipc).check().stdout
    assert "Directory" in hdfs("dfsadmin", "-getVolumeReport", ipc).check().stdout
    assert "bytes per second" in hdfs("dfsadmin", "-getBalancerBandwidth", ipc).check().stdout
    hdfs("dfsadmin", "-triggerBlockReport", ipc).check()
    hdfs("dfsadmin", "-triggerBlockReport", "-incremental", ipc).check()
    hdfs("dfsadmin", "-evictWriters", ipc).check()
    hdfs("dfsadmin", "-refreshNamenodes", ipc).check()
    refused = hdfs("dfsadmin", "-deleteBlockPool", ipc, "BP-1")
    assert refused.status != 0
    assert "one block pool" in refused.stderr
    told = hdfs("diskbalancer", "-query", ipc).check()
    assert "NO_PLAN" in told.stdout + told.stderr


def test_small_orders(hdfs: Shell) -> None:
    hdfs("dfsadmin", "-refreshNodes").check()
    hdfs("dfsadmin", "-refreshUserToGroupsMappings").check()
    hdfs("dfsadmin", "-finalizeUpgrade").check()
    hdfs("dfsadmin", "-setBalancerBandwidth", "1000000").check()
    hdfs("dfsadmin", "-listOpenFiles").check()
    hdfs("dfsadmin", "-rollEdits").check()
    hdfs("dfsadmin", "-upgrade", "query").check()
    assert "no rolling upgrade" in hdfs("dfsadmin", "-rollingUpgrade", "query").check().stdout
    hdfs("dfsadmin", "-restoreFailedStorage", "check").check()
    hdfs("dfsadmin", "-refreshCallQueue").check()
    refused = hdfs("dfsadmin", "-refreshServiceAcl")
    assert "Service Level Authorization not enabled" in refused.stderr
    hdfs("dfsadmin", "-refreshSuperUserGroupsConfiguration").check()
    assert "HOT" in hdfs("storagepolicies", "-listPolicies").check().stdout


def test_save_namespace_needs_safe_mode(hdfs: Shell) -> None:
    refused = hdfs("dfsadmin", "-saveNamespace")
    assert refused.status != 0
    assert "Safe mode should be turned ON" in refused.stderr
    hdfs("dfsadmin", "-safemode", "enter").check()
    try:
        assert "successful" in hdfs("dfsadmin", "-saveNamespace").check().stdout
    finally:
        hdfs("dfsadmin", "-safemode", "leave").check()


def test_its_role_is_told_to_haadmin(hdfs: Shell, dfs: FileSystem) -> None:
    """As one of two NameNodes by the client's configuration; it stands alone and stays active."""
    if not isinstance(dfs, LocalFileSystem):
        pytest.skip("Apache's NameNode here is configured without high availability")
    keys = {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "nn1,nn2",
        "dfs.namenode.rpc-address.ns.nn1": dfs.address,
        "dfs.namenode.rpc-address.ns.nn2": "127.0.0.1:1",
    }
    settings = [word for key, value in keys.items() for word in ("-D", f"{key}={value}")]
    assert hdfs("haadmin", *settings, "-getServiceState", "nn1").check().stdout == "active\n"
    hdfs("haadmin", *settings, "-checkHealth", "nn1").check()
    for order in ("-checkHealth", "-transitionToStandby"):
        refused = hdfs("haadmin", *settings, order, "nn1", user="eve")
        assert refused.status != 0
        assert "Superuser privilege is required" in refused.stderr
    refused = hdfs("haadmin", *settings, "-transitionToStandby", "nn1")
    assert refused.status != 0
    assert "stands alone" in refused.stderr
