"""The configuration keys of NameNodes and DataNodes: HDFS's names, ours where HDFS has none.

Owns: `HDFS_CONFIG`, one table for both roles (an `hdfs-site.xml` serves both as well).
Must not know: what a value does.
Spec: Hadoop 3.5's hdfs-default.xml for names, units and defaults. `kafka_default` of a key holds
HDFS's default where ours is another. Times are in the unit HDFS gives them: seconds where the
key has always been in seconds, milliseconds elsewhere.
"""

from typing import Any

from headrace.base.config import (
    SAME,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    Range,
    Validator,
)

_B, _S, _I, _L, _D = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
)
_ONE_UP = Range(1)
_ZERO_UP = Range(0)
_MIB = 1024 * 1024


def _key(
    name: str,
    type_: ConfigType,
    default: Any,
    doc: str,
    validator: Validator | None = None,
    *,
    hdfs: Any = SAME,
) -> ConfigKey:
    return ConfigKey(name, type_, default, doc, validator, Importance.MEDIUM, kafka_default=hdfs)


_BOTH = (
    _key("headrace.log.level", _S, "info", "debug, info, warning or error."),
    _key("cluster.id", _S, None, "Cluster id given at the first start; made up if missing."),
    _key("dfs.heartbeat.interval", _I, 3, "Seconds between a DataNode's heartbeats.", _ONE_UP),
    _key(
        "dfs.blocksize", _L, 128 * _MIB, "Bytes of a block, where a client does not say.", _ONE_UP
    ),
    _key("dfs.replication", _I, 3, "Replicas of a block, where a client does not say.", _ONE_UP),
    _key("dfs.bytes-per-checksum", _I, 512, "Bytes that one checksum covers.", _ONE_UP),
    _key("ipc.maximum.data.length", _I, 128 * _MIB, "Largest RPC frame, in bytes.", _ONE_UP),
    _key("ipc.server.max.connections", _I, 4096, "RPC connections at a time.", _ONE_UP, hdfs=0),
    _key(
        "ipc.client.connection.idle-timeout",
        _I,
        600_000,
        "Milliseconds after which a silent RPC connection is closed.",
        _ONE_UP,
        hdfs=20_000,
    ),
)

_NAMENODE = (
    _key(
        "dfs.namenode.rpc-address",
        _S,
        "127.0.0.1:8020",
        "Where clients and DataNodes call.",
        hdfs=None,
    ),
    _key(
        "dfs.namenode.http-address",
        _S,
        "127.0.0.1:9870",
        "WebHDFS, /fsck, /jmx, /metrics.",
        hdfs="0.0.0.0:9870",
    ),
    _key(
        "dfs.namenode.name.dir",
        _S,
        None,
        "Where the edit log and checkpoints are; default below --data.",
        hdfs="file://${hadoop.tmp.dir}/dfs/name",
    ),
    _key("dfs.permissions.enabled", _B, True, "Check permissions."),
    _key("dfs.permissions.superusergroup", _S, "supergroup", "Whose members are superusers."),
    _key("dfs.cluster.administrators", _S, "", "Further superusers, by name, separated by commas."),
    _key("dfs.namenode.acls.enabled", _B, True, "Access control lists."),
    _key("dfs.namenode.xattrs.enabled", _B, True, "Extended attributes."),
    _key(
        "dfs.namenode.replication.min", _I, 1, "Replicas with which a block is complete.", _ONE_UP
    ),
    _key("dfs.replication.max", _I, 512, "Most replicas a file may ask for.", _ONE_UP),
    _key(
        "dfs.namenode.fs-limits.min-block-size",
        _L,
        _MIB,
        "Smallest block size, in bytes.",
        _ZERO_UP,
    ),
    _key(
        "dfs.namenode.fs-limits.max-blocks-per-file", _I, 10_000, "Most blocks of a file.", _ONE_UP
    ),
    _key(
        "dfs.namenode.fs-limits.max-component-length", _I, 255, "Longest name, in bytes.", _ONE_UP
    ),
    _key(
        "dfs.namenode.fs-limits.max-directory-items",
        _I,
        1_048_576,
        "Most entries of a directory.",
        _ONE_UP,
    ),
    _key(
        "dfs.namenode.fs-limits.max-xattrs-per-inode",
        _I,
        32,
        "Most extended attributes of a file.",
        _ZERO_UP,
    ),
    _key(
        "dfs.namenode.fs-limits.max-xattr-size",
        _I,
        16_384,
        "Most bytes of an attribute with its name.",
        _ONE_UP,
    ),
    _key("dfs.ls.limit", _I, 1000, "Entries in one part of a listing.", _ONE_UP),
    _key(
        "dfs.content-summary.limit", _I, 5000, "Inodes counted before others get a turn.", _ONE_UP
    ),
    _key(
        "dfs.namenode.accesstime.precision",
        _L,
        3_600_000,
        "Milliseconds; 0 keeps no access times.",
        _ZERO_UP,
    ),
    _key(
        "dfs.namenode.retrycache.expirytime.millis",
        _L,
        600_000,
        "How long a repeated call gets its first answer.",
        _ONE_UP,
    ),
    _key(
        "dfs.namenode.lease-hard-limit-sec",
        _I,
        1200,
        "Seconds after which a silent writer loses its files.",
        _ONE_UP,
    ),
    _key(
        "dfs.namenode.heartbeat.recheck-interval",
        _I,
        0,
        "A DataNode is dead after ten heartbeats and twice this many milliseconds.",
        _ZERO_UP,
        hdfs=300_000,
    ),
    _key(
        "dfs.namenode.stale.datanode.interval",
        _L,
        30_000,
        "Milliseconds of silence after which a DataNode is asked last.",
        _ONE_UP,
    ),
    _key(
        "dfs.namenode.safemode.threshold-pct",
        _D,
        0.999,
        "Share of blocks reported before writes are let in.",
    ),
    _key(
        "dfs.namenode.safemode.min.datanodes",
        _I,
        0,
        "DataNodes that must be there before writes are let in.",
        _ZERO_UP,
    ),
    _key(
        "dfs.namenode.safemode.extension",
        _I,
        0,
        "Milliseconds that safe mode lasts longer.",
        _ZERO_UP,
        hdfs=30_000,
    ),
    _key(
        "dfs.namenode.resource.du.reserved",
        _L,
        100 * _MIB,
        "Bytes that stay free where the edit log is: with less, changes are refused (safe mode) "
        "until there is room; 0: never.",
        _ZERO_UP,
    ),
    _key(
        "dfs.namenode.resource.check.interval",
        _L,
        5000,
        "Milliseconds between looks for that room.",
        _ONE_UP,
    ),
    _key(
        "dfs.namenode.redundancy.interval.seconds",
        _I,
        3,
        "Seconds between looks for blocks to copy.",
        _ONE_UP,
    ),
    _key(
        "dfs.namenode.replication.max-streams", _I, 2, "Copies a DataNode makes at a time.", _ONE_UP
    ),
    _key(
        "dfs.block.invalidate.limit",
        _I,
        1000,
        "Blocks a DataNode is told to delete at a time.",
        _ONE_UP,
    ),
    _key(
        "dfs.namenode.reconstruction.pending.timeout-sec",
        _I,
        300,
        "Seconds after which a copy is taken for lost.",
        _ONE_UP,
    ),
    _key(
        "dfs.namenode.startup.delay.block.deletion.sec",
        _L,
        0,
        "Seconds after the start before blocks are deleted.",
        _ZERO_UP,
    ),
    _key("dfs.namenode.snapshot.max.limit", _I, 65_536, "Most snapshots of a directory.", _ONE_UP),
    _key(
        "dfs.namenode.checkpoint.txns",
        _L,
        1_000_000,
        "Edits after which a checkpoint is made.",
        _ONE_UP,
    ),
    _key(
        "dfs.namenode.checkpoint.period",
        _L,
        3600,
        "Seconds after which a checkpoint is made.",
        _ONE_UP,
    ),
    _key(
        "dfs.namenode.min.supported.datanode.version",
        _S,
        "2.1.0-beta",
        "The oldest Hadoop release that a DataNode may be of.",
    ),
    _key("dfs.hosts", _S, "", "File of the DataNodes that may join; empty: all."),
    _key("dfs.hosts.exclude", _S, "", "File of the DataNodes to decommission."),
    _key(
        "net.topology.table.file.name",
        _S,
        None,
        "File of `host rack` lines; read at the start and by `dfsadmin -refreshNodes`.",
    ),
    _key(
        "dfs.namenode.path.based.cache.refresh.interval.ms",
        _L,
        30_000,
        "Milliseconds between looks at which blocks are to be held in memory.",
        _ONE_UP,
    ),
    _key(
        "fs.trash.interval",
        _L,
        0,
        "Minutes that deleted files stay in the trash; 0: clients delete for good.",
        _ZERO_UP,
    ),
    _key(
        "fs.trash.checkpoint.interval",
        _L,
        0,
        "Minutes between looks at the trash; 0 or more than fs.trash.interval: as often as that.",
        _ZERO_UP,
    ),
    _key(
        "headrace.namenode.busy.wait.us",
        _I,
        500,
        "Microseconds that the NameNode looks for the next call before it sleeps, once a client "
        "has asked again that soon after its answer, and that its core is kept awake in a wait "
        "for the disk then; 0: it sleeps at once.",
        _ZERO_UP,
    ),
    _key(
        "headrace.webhdfs.proxy",
        _B,
        False,
        "Move WebHDFS data through the NameNode, for clients that can't reach DataNodes.",
    ),
)

_DATANODE = (
    _key(
        "dfs.datanode.address",
        _S,
        "127.0.0.1:9866",
        "Where block data is transferred.",
        hdfs="0.0.0.0:9866",
    ),
    _key(
        "dfs.datanode.ipc.address",
        _S,
        "127.0.0.1:9867",
        "Where a DataNode is called.",
        hdfs="0.0.0.0:9867",
    ),
    _key(
        "dfs.datanode.http.address",
        _S,
        "127.0.0.1:9864",
        "WebHDFS data, /jmx, /metrics.",
        hdfs="0.0.0.0:9864",
    ),
    _key(
        "dfs.datanode.min.supported.namenode.version",
        _S,
        "2.1.0-beta",
        "The oldest Hadoop release that the NameNode may be of.",
    ),
    _key("dfs.datanode.hostname", _S, None, "The name under which clients reach this DataNode."),
    _key(
        "dfs.datanode.data.dir",
        _S,
        None,
        "Volumes, separated by commas, `[DISK]` before them or nothing; default below --data.",
        hdfs="file://${hadoop.tmp.dir}/dfs/data",
    ),
    _key(
        "dfs.datanode.failed.volumes.tolerated",
        _I,
        -1,
        "Volumes that may fail, or be missing at the start; -1: all but one.",
        hdfs=0,
    ),
    _key(
        "dfs.datanode.du.reserved", _L, 0, "Bytes of each volume that are not for blocks.", _ZERO_UP
    ),
    _key(
        "dfs.blockreport.intervalMsec",
        _L,
        21_600_000,
        "Milliseconds between full block reports.",
        _ONE_UP,
    ),
    _key(
        "dfs.blockreport.incremental.intervalMsec",
        _L,
        0,
        "Milliseconds that received blocks wait to be reported together.",
        _ZERO_UP,
    ),
    _key("dfs.datanode.max.transfer.threads", _I, 4096, "Transfers at a time.", _ONE_UP),
    _key("dfs.client.socket-timeout", _I, 60_000, "Milliseconds without a byte to read.", _ONE_UP),
    _key(
        "dfs.datanode.socket.write.timeout",
        _I,
        480_000,
        "Milliseconds without a byte written.",
        _ONE_UP,
    ),
    _key(
        "dfs.datanode.scan.period.hours",
        _I,
        504,
        "Hours in which every block is read and checked; 0 never.",
        _ZERO_UP,
    ),
    _key(
        "dfs.block.scanner.volume.bytes.per.second",
        _L,
        _MIB,
        "Bytes a second that the scanner reads of each volume; 0: there is none.",
        _ZERO_UP,
    ),
    _key(
        "dfs.block.scanner.cursor.save.interval.ms",
        _L,
        600_000,
        "Milliseconds between notes on each volume of how far its scanner came.",
        _ZERO_UP,
    ),
    _key(
        "dfs.datanode.sync.behind.writes",
        _B,
        False,
        "Start writing out behind every writer; without it, behind those that sync their blocks.",
    ),
    _key("dfs.datanode.drop.cache.behind.writes", _B, False, "Drop written data from the cache."),
    _key("dfs.datanode.drop.cache.behind.reads", _B, False, "Drop read data from the cache."),
    _key(
        "headrace.datanode.direct.writes",
        _B,
        True,
        "Large blocks of writers that sync go around the page cache; off for spinning disks.",
    ),
    _key("dfs.datanode.readahead.bytes", _L, 4 * _MIB, "Bytes read ahead.", _ZERO_UP),
    _key(
        "dfs.datanode.max.locked.memory",
        _L,
        0,
        "Bytes of memory for blocks that cache directives name; 0: none are held.",
        _ZERO_UP,
    ),
    _key(
        "dfs.cachereport.intervalMsec",
        _L,
        10_000,
        "Milliseconds between reports of the blocks held in memory.",
        _ONE_UP,
    ),
    _key("dfs.datanode.synconclose", _B, False, "Sync a block to disk when it is finished."),
    _key(
        "dfs.datanode.balance.bandwidthPerSec",
        _L,
        100 * _MIB,
        "Bytes a second for balancing.",
        _ONE_UP,
    ),
)

HDFS_CONFIG = ConfigDef("file system", (*_BOTH, *_NAMENODE, *_DATANODE))
