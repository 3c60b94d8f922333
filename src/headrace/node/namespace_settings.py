"""From HDFS's keys to the namespace's settings, and the files that some of them name.

Owns: units and defaults on that way, lists of hosts and racks. Must not know: how anything is
served.
"""

from pathlib import Path
from typing import Any

from headrace.base.errors import UsageError
from headrace.namespace.leaving import Hosts
from headrace.namespace.racks import parse_racks
from headrace.namespace.settings import NamespaceSettings
from headrace.node.hdfs_settings import administrators


def namespace_settings(config: dict[str, Any], superuser: str) -> NamespaceSettings:
    """HDFS's keys as the namespace's values, with their units."""
    heartbeat_ms = int(config["dfs.heartbeat.interval"]) * 1000
    return NamespaceSettings(
        superuser=superuser,
        supergroup=config["dfs.permissions.superusergroup"],
        administrators=administrators(config),
        permissions_enabled=config["dfs.permissions.enabled"],
        acls_enabled=config["dfs.namenode.acls.enabled"],
        xattrs_enabled=config["dfs.namenode.xattrs.enabled"],
        block_size=config["dfs.blocksize"],
        replication=config["dfs.replication"],
        replication_min=config["dfs.namenode.replication.min"],
        replication_max=config["dfs.replication.max"],
        min_block_size=config["dfs.namenode.fs-limits.min-block-size"],
        bytes_per_checksum=config["dfs.bytes-per-checksum"],
        max_blocks_per_file=config["dfs.namenode.fs-limits.max-blocks-per-file"],
        max_component_length=config["dfs.namenode.fs-limits.max-component-length"],
        max_directory_items=config["dfs.namenode.fs-limits.max-directory-items"],
        max_xattrs=config["dfs.namenode.fs-limits.max-xattrs-per-inode"],
        max_xattr_bytes=config["dfs.namenode.fs-limits.max-xattr-size"],
        listing_limit=config["dfs.ls.limit"],
        content_summary_limit=config["dfs.content-summary.limit"],
        access_time_precision_ms=config["dfs.namenode.accesstime.precision"],
        snapshots_max=config["dfs.namenode.snapshot.max.limit"],
        retry_cache_expiry_ms=config["dfs.namenode.retrycache.expirytime.millis"],
        lease_hard_limit_ms=config["dfs.namenode.lease-hard-limit-sec"] * 1000,
        heartbeat_interval_ms=heartbeat_ms,
        datanode_dead_ms=10 * heartbeat_ms
        + 2 * int(config["dfs.namenode.heartbeat.recheck-interval"]),
        min_datanode_version=config["dfs.namenode.min.supported.datanode.version"],
        stale_datanode_ms=config["dfs.namenode.stale.datanode.interval"],
        safemode_threshold=config["dfs.namenode.safemode.threshold-pct"],
        safemode_min_datanodes=config["dfs.namenode.safemode.min.datanodes"],
        safemode_extension_ms=config["dfs.namenode.safemode.extension"],
        redundancy_interval_ms=config["dfs.namenode.redundancy.interval.seconds"] * 1000,
        max_transfers_per_datanode=config["dfs.namenode.replication.max-streams"],
        invalidate_limit=config["dfs.block.invalidate.limit"],
        pending_timeout_ms=config["dfs.namenode.reconstruction.pending.timeout-sec"] * 1000,
        startup_invalidate_delay_ms=config["dfs.namenode.startup.delay.block.deletion.sec"] * 1000,
        checkpoint_edits=config["dfs.namenode.checkpoint.txns"],
        checkpoint_interval_ms=config["dfs.namenode.checkpoint.period"] * 1000,
        resource_reserved_bytes=config["dfs.namenode.resource.du.reserved"],
        resource_check_ms=config["dfs.namenode.resource.check.interval"],
        cache_refresh_ms=config["dfs.namenode.path.based.cache.refresh.interval.ms"],
        trash_interval_min=config["fs.trash.interval"],
        trash_checkpoint_interval_min=config["fs.trash.checkpoint.interval"],
    )


def read_hosts(config: dict[str, Any]) -> Hosts:
    """The files of `dfs.hosts` and `dfs.hosts.exclude`: names, a line or a space apart."""
    return Hosts(included=_names(config["dfs.hosts"]), excluded=_names(config["dfs.hosts.exclude"]))


def read_racks(config: dict[str, Any]) -> dict[str, str]:
    """The file of `net.topology.table.file.name`, if one is named."""
    path = config["net.topology.table.file.name"]
    if not path:
        return {}
    try:
        return parse_racks(Path(path).read_text(), path)
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from error


def _names(path: str) -> frozenset[str]:
    if not path:
        return frozenset()
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from error
    return frozenset(name for line in lines for name in line.partition("#")[0].split())
