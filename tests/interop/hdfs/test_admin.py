"""`hdfs dfsadmin`, `fsck`, snapshots and the other tools of an operator."""

from pathlib import Path

import pytest
from tests.interop.hdfs.conftest import FileSystem, Shell

pytestmark = pytest.mark.java


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


def test_only_the_superuser_administers(hdfs: Shell) -> None:
    refused = hdfs("dfsadmin", "-safemode", "enter", user="eve")
    assert refused.status != 0
    assert "Superuser privilege is required" in refused.stderr
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


def test_cache_pools_and_directives(hdfs: Shell, folder: str, local: Path) -> None:
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
    listed = hdfs("cacheadmin", "-listDirectives", "-stats", "-path", f"{folder}/f").check().stdout
    assert "Found 1 entry" in listed
    row = listed.splitlines()[-1].split()
    assert row == [directive, pool, "2", "never", f"{folder}/f", "12000", "0", "1", "0"]
    hidden = hdfs("cacheadmin", "-listDirectives", "-pool", pool, user="eve").check().stdout
    assert "Found 0 entries" in hidden

    change = ("cacheadmin", "-modifyDirective", "-id", directive)
    hdfs(*change, "-replication", "1", "-ttl", "1h").check()
    row = hdfs("cacheadmin", "-listDirectives", "-id", directive).check().stdout.split()
    assert "never" not in row
    hdfs("cacheadmin", "-modifyPool", pool, "-mode", "755", "-maxTtl", "2h").check()
    shown = hdfs("cacheadmin", "-listPools", "-stats", pool).check().stdout
    row = shown.splitlines()[-1].split()
    assert row[:7] == [pool, "ann", "staff", "rwxr-xr-x", "20000", "000:02:00:00.000", "1"]
    assert row[7:] == ["6000", "0", "0", "1", "0"]
    hdfs("cacheadmin", "-removeDirective", directive).check()
    hdfs("cacheadmin", "-removePool", pool).check()
    assert pool not in hdfs("cacheadmin", "-listPools").check().stdout


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
    missing = hdfs("fsck", f"{folder}/nope")
    assert "does not exist" in missing.stdout + missing.stderr


def test_small_orders(hdfs: Shell) -> None:
    hdfs("dfsadmin", "-refreshNodes").check()
    hdfs("dfsadmin", "-refreshUserToGroupsMappings").check()
    hdfs("dfsadmin", "-finalizeUpgrade").check()
    hdfs("dfsadmin", "-setBalancerBandwidth", "1000000").check()
    hdfs("dfsadmin", "-listOpenFiles").check()
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
