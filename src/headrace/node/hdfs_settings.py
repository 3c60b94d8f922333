"""Configuration of the file system's processes: where it comes from, what it means.

Owns: the way from HDFS's keys to the namespace's settings, the loopback rule.
Must not know: how anything is served.
"""

import contextlib
import ipaddress
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.base.config_sources import Resolved, read_config_text, resolve
from headrace.base.errors import UsageError
from headrace.base.hdfs_keys import HDFS_CONFIG
from headrace.namespace.leaving import Hosts
from headrace.namespace.racks import parse_racks
from headrace.namespace.settings import NamespaceSettings


def load_config(config_file: str | None, settings: dict[str, str]) -> Resolved:
    """Flags over environment over file over defaults."""
    from_file = None
    if config_file is not None:
        try:
            from_file = read_config_text(Path(config_file).read_text(), config_file)
        except OSError as error:
            raise UsageError(f"can't read {config_file}: {error.strerror}") from error
    return resolve(HDFS_CONFIG, flags=settings, environment=os.environ, file=from_file)


def refuse_exposed(key: str, listener: str, insecure: bool) -> None:
    """Without authentication only loopback is served, unless somebody insists."""
    host, _ = parse_address(key, listener)
    if insecure or host == "localhost":
        return
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    raise UsageError(
        f"{key}={listener} is open to the network and nothing authenticates clients yet; "
        "listen on 127.0.0.1, or say --insecure"
    )


def parse_address(key: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{key}={text} is not HOST:PORT")
    return host.strip("[]"), int(port)


def namespace_settings(config: dict[str, Any], superuser: str) -> NamespaceSettings:
    """HDFS's keys as the namespace's values, with their units."""
    heartbeat_ms = int(config["dfs.heartbeat.interval"]) * 1000
    return NamespaceSettings(
        superuser=superuser,
        supergroup=config["dfs.permissions.superusergroup"],
        administrators=_administrators(config),
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
        cache_refresh_ms=config["dfs.namenode.path.based.cache.refresh.interval.ms"],
        trash_interval_min=config["fs.trash.interval"],
        trash_checkpoint_interval_min=config["fs.trash.checkpoint.interval"],
    )


def _administrators(config: dict[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, config["dfs.cluster.administrators"].split(","))))


class Superusers:
    """Who may give a DataNode orders: who runs it, and the superusers of the namespace."""

    def __init__(
        self, config: dict[str, Any], owner: str, groups: Callable[[str], tuple[str, ...]]
    ) -> None:
        self._are_checked = bool(config["dfs.permissions.enabled"])
        self._names = _administrators(config) | {owner}
        self._group = str(config["dfs.permissions.superusergroup"])
        self._groups = groups

    def __call__(self, user: str) -> bool:
        return not self._are_checked or user in self._names or self._group in self._groups(user)


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
