"""Settings of the namespace: HDFS's keys, as values with units.

Owns: defaults where they are HDFS's own or ours (docs/OPERATIONS says which differ).
"""

from dataclasses import dataclass

from headrace.wire.hadoop.versions import SUPPORTED_VERSION_MIN

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class NamespaceSettings:
    superuser: str = "hdfs"
    supergroup: str = "supergroup"
    """`dfs.permissions.superusergroup`."""
    administrators: frozenset[str] = frozenset()
    """`dfs.cluster.administrators`: further superusers."""
    permissions_enabled: bool = True
    acls_enabled: bool = True
    xattrs_enabled: bool = True
    symlinks_enabled: bool = True
    block_size: int = 128 * MIB
    replication: int = 3
    replication_min: int = 1
    replication_max: int = 512
    min_block_size: int = MIB
    bytes_per_checksum: int = 512
    max_blocks_per_file: int = 10_000
    max_component_length: int = 255
    max_path_chars: int = 8000
    max_path_depth: int = 1000
    max_directory_items: int = 1_048_576
    max_xattrs: int = 32
    max_xattr_bytes: int = 16_384
    max_acl_entries: int = 32
    listing_limit: int = 1000
    content_summary_limit: int = 5000
    access_time_precision_ms: int = 3_600_000
    snapshots_max: int = 65_536
    retry_cache_expiry_ms: int = 600_000
    retry_cache_entries_max: int = 100_000
    lease_soft_limit_ms: int = 60_000
    lease_hard_limit_ms: int = 1_200_000
    lease_check_ms: int = 2_000
    heartbeat_interval_ms: int = 3_000
    datanode_dead_ms: int = 30_000
    safemode_threshold: float = 0.999
    safemode_min_datanodes: int = 0
    safemode_extension_ms: int = 0
    redundancy_interval_ms: int = 3_000
    max_transfers_per_datanode: int = 2
    """`dfs.namenode.replication.max-streams`."""
    invalidate_limit: int = 1000
    pending_timeout_ms: int = 300_000
    recovery_timeout_ms: int = 30_000
    """A primary that has not ended a block recovery by then: another is asked."""
    complete_wait_ms: int = 300
    """How long `complete` and `addBlock` wait for a DataNode's report before they say no."""
    first_datanode_wait_ms: int = 10_000
    """How long after a start `addBlock` waits for the first DataNode before it says no."""
    startup_invalidate_delay_ms: int = 0
    stale_datanode_ms: int = 30_000
    min_datanode_version: str = SUPPORTED_VERSION_MIN
    """`dfs.namenode.min.supported.datanode.version`."""
    checkpoint_edits: int = 1_000_000
    checkpoint_interval_ms: int = 3_600_000
    resource_reserved_bytes: int = 0
    """`dfs.namenode.resource.du.reserved`."""
    resource_check_ms: int = 5_000
    """`dfs.namenode.resource.check.interval`."""
    cache_refresh_ms: int = 30_000
    """`dfs.namenode.path.based.cache.refresh.interval.ms`."""
    trash_interval_min: int = 0
    """`fs.trash.interval`; 0: no trash."""
    trash_checkpoint_interval_min: int = 0
    """`fs.trash.checkpoint.interval`; 0: as the interval itself."""
