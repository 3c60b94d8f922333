"""The broker's configuration keys: Kafka's names, ours where Kafka has none.

Owns: `BROKER_CONFIG`, the table. Must not know: what a value does.
Spec: Kafka 4.3's AbstractKafkaConfig for names, types, rules and defaults, and its
DynamicBrokerConfig for what may change while a broker runs. A default that differs from Kafka's
says so in `kafka_default`; a key that is accepted and changes nothing here has honoured=False,
so that a Kafka file can be used as it is.

Invariant: what may be altered while a broker runs has an effect then. Keys without effect, and
`listeners`, are read-only here where they are dynamic in Kafka: who alters them is refused, not
left in the belief that something has changed.
"""

from dataclasses import replace
from typing import Any

from headrace.base.config import (
    DOUBLE_MAX,
    INT_MAX,
    LONG_MAX,
    SAME,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    ListOf,
    OneOf,
    Range,
    UpdateMode,
    Validator,
)
from headrace.base.topic_config import CLEANUP_POLICIES, CODECS, TIMESTAMP_TYPES

_B, _S, _I, _H, _L, _D, _LIST, _C, _P = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.CLASS,
    ConfigType.PASSWORD,
)
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_FIXED, _BROKER, _CLUSTER = UpdateMode.READ_ONLY, UpdateMode.PER_BROKER, UpdateMode.CLUSTER_WIDE
CONSUMER_ASSIGNORS = (
    "uniform",
    "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
)
SHARE_ASSIGNORS = ("simple", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor")


class AllOrSome:
    """`*` stands alone."""

    def refusal(self, value: Any) -> str | None:
        if "*" in value and len(value) > 1:
            return "with * it must not contain other values"
        return None

    def __str__(self) -> str:
        return "paths, or *"


_ONE_UP = Range(1)
_ZERO_UP = Range(0)


def _key(
    name: str,
    type_: ConfigType,
    default: Any,
    importance: Importance,
    doc: str,
    validator: Validator | None = None,
    mode: UpdateMode = UpdateMode.READ_ONLY,
    *,
    kafka: Any = SAME,
) -> ConfigKey:
    return ConfigKey(name, type_, default, doc, validator, importance, mode, (), kafka)


def _idle(
    name: str,
    type_: ConfigType,
    default: Any,
    validator: Validator | None = None,
) -> ConfigKey:
    """A key that Kafka files hold and that has no meaning here."""
    doc = "Accepted so that Kafka's configuration files work; has no effect here."
    return ConfigKey(name, type_, default, doc, validator, _LOW, _FIXED, honoured=False)


def _awaiting(what: str, *keys: ConfigKey) -> tuple[ConfigKey, ...]:
    """Keys whose meaning comes with a later part of the project, and which say so."""
    note = f" Without effect until there is {what}."
    return tuple(
        replace(key, doc=key.doc + note, honoured=False, update_mode=_FIXED) for key in keys
    )


# fmt: off
_NODE = (
    _key("node.id", _I, 1, _HIGH, "This node's id in the cluster.", _ZERO_UP),
    _key("broker.id", _I, -1, _HIGH, "Older name of node.id; node.id goes before it."),
    _key("cluster.id", _S, None, _HIGH,
         "Id given to an empty data directory; drawn at random where none is given."),
    _key("broker.rack", _S, None, _MEDIUM,
         "Where this node stands; replicas are spread over racks."),
    _key("auto.create.topics.enable", _B, True, _HIGH,
         "Create a topic when a client asks for its metadata and it does not exist."),
    _key("cordoned.log.dirs", _LIST, (), _MEDIUM,
         "Log directories of this broker that get no new replicas; * for all of them. What is "
         "there stays and is served.", AllOrSome(), _BROKER),
    _key("delete.topic.enable", _B, True, _HIGH, "Allow topics to be deleted."),
    _key("num.partitions", _I, 1, _MEDIUM,
         "Partitions of a topic that does not say how many.", _ONE_UP),
    _key("default.replication.factor", _I, 1, _MEDIUM,
         "Replicas of a topic that does not say how many."),
    _key("max.request.partition.size.limit", _I, 2000, _MEDIUM,
         "Partitions that one DescribeTopicPartitions answer may hold.", _ONE_UP),
)

_NETWORK = (
    _key("listeners", _LIST, ("PLAINTEXT://127.0.0.1:9092",), _HIGH,
         "Addresses served, as NAME://host:port; port 0 takes a free one.",
         kafka=("PLAINTEXT://:9092",)),
    _key("advertised.listeners", _LIST, None, _HIGH,
         "Addresses told to clients where they differ from listeners."),
    _key("socket.request.max.bytes", _I, 104_857_600, _HIGH,
         "Largest request; a longer one loses its connection before anything is reserved.",
         _ONE_UP),
    _key("socket.send.buffer.bytes", _I, -1, _HIGH,
         "SO_SNDBUF of connections, -1 for the system's own, which grows with the traffic.",
         kafka=102_400),
    _key("socket.receive.buffer.bytes", _I, -1, _HIGH,
         "SO_RCVBUF of connections, -1 for the system's own, which grows with the traffic.",
         kafka=102_400),
    _key("connections.max.idle.ms", _L, 600_000, _MEDIUM,
         "A connection without a request for so long is closed; 0 or less closes none."),
    _key("max.connections", _I, INT_MAX, _MEDIUM, "Connections in all.", _ZERO_UP, _CLUSTER),
    _key("authorizer.class.name", _S, "", _LOW,
         "Must be empty: requests are not authorized yet, and a name here would be relied on."),
    _key("headrace.log.level", _S, "info", _MEDIUM, "The least important events that are logged.",
         OneOf(("debug", "info", "warning", "error"))),
    _key("headrace.metrics.listener", _S, None, _MEDIUM,
         "host:port for /metrics and /health over HTTP; a free port of loopback if unset."),
)

_LOG = (
    _key("log.dirs", _LIST, None, _HIGH,
         "Directories that hold the partitions; log.dir is used if unset."),
    _key("log.dir", _LIST, None, _HIGH, "The one directory that holds the partitions.",
         kafka="a folder of temporary files"),
    _key("metadata.log.dir", _S, None, _HIGH,
         "Directory of the metadata log; the first of log.dirs if unset."),
    _key("message.max.bytes", _I, 1_048_588, _HIGH,
         "Default of max.message.bytes.", _ZERO_UP, _CLUSTER),
    _key("min.insync.replicas", _I, 1, _HIGH, "Default of min.insync.replicas.", _ONE_UP, _CLUSTER),
    _key("compression.type", _S, "producer", _HIGH,
         "Default of compression.type.", OneOf(CODECS), _CLUSTER),
    _key("compression.gzip.level", _I, -1, _MEDIUM, "Default of compression.gzip.level.",
         Range(1, 9, also=(-1,)), _CLUSTER),
    _key("compression.lz4.level", _I, 9, _MEDIUM,
         "Default of compression.lz4.level.", Range(1, 17), _CLUSTER),
    _key("compression.zstd.level", _I, 3, _MEDIUM, "Default of compression.zstd.level.",
         Range(-131072, 22), _CLUSTER),
    _key("log.segment.bytes", _I, 2**30, _HIGH,
         "Default of segment.bytes.", Range(1_048_576), _CLUSTER),
    _key("log.roll.ms", _L, None, _HIGH,
         "Default of segment.ms; log.roll.hours is used if unset.", None,
         _CLUSTER),
    _key("log.roll.hours", _I, 168, _HIGH, "Default of segment.ms in hours.", _ONE_UP),
    _key("log.roll.jitter.ms", _L, None, _HIGH,
         "Default of segment.jitter.ms; log.roll.jitter.hours is used if unset.", None, _CLUSTER),
    _key("log.roll.jitter.hours", _I, 0, _HIGH, "Default of segment.jitter.ms in hours.", _ZERO_UP),
    _key("log.retention.ms", _L, None, _HIGH,
         "Default of retention.ms; log.retention.minutes is used if unset.", None, _CLUSTER),
    _key("log.retention.minutes", _I, None, _HIGH,
         "Default of retention.ms in minutes; log.retention.hours is used if unset."),
    _key("log.retention.hours", _I, 168, _HIGH, "Default of retention.ms in hours."),
    _key("log.retention.bytes", _L, -1, _HIGH, "Default of retention.bytes.", None, _CLUSTER),
    _key("log.retention.check.interval.ms", _L, 300_000, _MEDIUM,
         "Time between two looks for segments to delete.", _ONE_UP),
    _key("log.cleanup.policy", _LIST, ("delete",), _MEDIUM, "Default of cleanup.policy.",
         ListOf(CLEANUP_POLICIES), _CLUSTER),
    _key("log.index.size.max.bytes", _I, 10_485_760, _MEDIUM,
         "Default of segment.index.bytes.", Range(4),
         _CLUSTER),
    _key("log.index.interval.bytes", _I, 4096, _MEDIUM,
         "Default of index.interval.bytes.", _ZERO_UP, _CLUSTER),
    _key("log.flush.interval.messages", _L, LONG_MAX, _HIGH,
         "Default of flush.messages.", _ONE_UP, _CLUSTER),
    _key("log.flush.interval.ms", _L, None, _HIGH,
         "Default of flush.ms; log.flush.scheduler.interval.ms is used if unset.", None, _CLUSTER),
    _key("log.flush.scheduler.interval.ms", _L, LONG_MAX, _HIGH,
         "Time between two looks for logs that flush.ms asks to sync."),
    _key("log.segment.delete.delay.ms", _L, 60_000, _HIGH,
         "Default of file.delete.delay.ms.", _ZERO_UP,
         _CLUSTER),
    _key("log.preallocate", _B, False, _MEDIUM, "Default of preallocate.", None, _CLUSTER),
    _key("log.message.timestamp.type", _S, "CreateTime", _MEDIUM,
         "Default of message.timestamp.type.",
         OneOf(TIMESTAMP_TYPES), _CLUSTER),
    _key("log.message.timestamp.after.max.ms", _L, 3_600_000, _MEDIUM,
         "Default of message.timestamp.after.max.ms.", _ZERO_UP, _CLUSTER),
    _key("log.message.timestamp.before.max.ms", _L, LONG_MAX, _MEDIUM,
         "Default of message.timestamp.before.max.ms.", _ZERO_UP, _CLUSTER),
    _key("producer.id.expiration.ms", _I, 86_400_000, _LOW,
         "An idempotent producer that wrote nothing for so long is forgotten.", _ONE_UP, _CLUSTER),
    _key("headrace.produce.validate.records", _B, False, _MEDIUM,
         "Walk every record of every produced batch, and refuse what only such a walk can see. "
         "Costs CPU: otherwise only the batch header and its CRC are read.", None, _CLUSTER),
)

_FETCH = (
    _key("fetch.max.bytes", _I, 57_671_680, _MEDIUM, "Largest fetch answer.", Range(1024)),
    _key("max.incremental.fetch.session.cache.slots", _I, 1000, _MEDIUM,
         "Fetch sessions kept.", _ZERO_UP),
    _key("replica.high.watermark.checkpoint.interval.ms", _L, 5_000, _HIGH,
         "Time between two writes of the high watermarks."),
)

_GROUPS = (
    _key("group.min.session.timeout.ms", _I, 6_000, _MEDIUM,
         "Shortest session time-out a member may ask for."),
    _key("group.max.session.timeout.ms", _I, 1_800_000, _MEDIUM,
         "Longest session time-out a member may ask for."),
    _key("group.initial.rebalance.delay.ms", _I, 0, _MEDIUM,
         "How long an empty group waits for more members before its first rebalance. Kafka's "
         "default is 3000, its quickstart file says 0, and so does this: a lone consumer starts "
         "at once.",
         kafka=3000),
    _key("group.max.size", _I, INT_MAX, _MEDIUM, "Members of one classic group.", _ONE_UP),
    _key("group.consumer.session.timeout.ms", _I, 45_000, _MEDIUM,
         "A member of a consumer group is gone when it was silent for so long.", _ONE_UP),
    _key("group.consumer.min.session.timeout.ms", _I, 45_000, _MEDIUM,
         "Shortest session time-out that may be set for a consumer group.", _ONE_UP),
    _key("group.consumer.max.session.timeout.ms", _I, 60_000, _MEDIUM,
         "Longest session time-out that may be set for a consumer group.", _ONE_UP),
    _key("group.consumer.heartbeat.interval.ms", _I, 5_000, _MEDIUM,
         "Time between two heartbeats of a member of a consumer group.", _ONE_UP),
    _key("group.consumer.min.heartbeat.interval.ms", _I, 5_000, _MEDIUM,
         "Shortest heartbeat interval that may be set for a consumer group.", _ONE_UP),
    _key("group.consumer.max.heartbeat.interval.ms", _I, 15_000, _MEDIUM,
         "Longest heartbeat interval that may be set for a consumer group.", _ONE_UP),
    _key("group.consumer.assignment.interval.ms", _I, 0, _MEDIUM,
         "Shortest time between two target assignments of a consumer group: who joins meanwhile "
         "gets its share with a later heartbeat, together with all others.", _ZERO_UP, kafka=1_000),
    _key("group.consumer.min.assignment.interval.ms", _I, 0, _MEDIUM,
         "Shortest assignment interval that may be set for a consumer group.", _ZERO_UP),
    _key("group.consumer.max.assignment.interval.ms", _I, 15_000, _MEDIUM,
         "Longest assignment interval that may be set for a consumer group.", _ZERO_UP),
    _key("group.consumer.max.size", _I, INT_MAX, _MEDIUM, "Members of one consumer group.",
         _ONE_UP),
    _key("group.consumer.assignors", _LIST, ("uniform", "range"), _MEDIUM,
         "Who assigns partitions in consumer groups; the first one where members name none.",
         ListOf(CONSUMER_ASSIGNORS)),
    _key("group.consumer.migration.policy", _S, "bidirectional", _MEDIUM,
         "Whether groups may change between the classic and the consumer protocol while they have "
         "members: bidirectional, upgrade, downgrade, disabled.",
         OneOf(("bidirectional", "upgrade", "downgrade", "disabled"))),
    _key("group.share.session.timeout.ms", _I, 45_000, _MEDIUM,
         "A member of a share group is gone when it was silent for so long.", _ONE_UP),
    _key("group.share.min.session.timeout.ms", _I, 45_000, _MEDIUM,
         "Shortest session time-out that may be set for a share group.", _ONE_UP),
    _key("group.share.max.session.timeout.ms", _I, 60_000, _MEDIUM,
         "Longest session time-out that may be set for a share group.", _ONE_UP),
    _key("group.share.heartbeat.interval.ms", _I, 5_000, _MEDIUM,
         "Time between two heartbeats of a member of a share group.", _ONE_UP),
    _key("group.share.min.heartbeat.interval.ms", _I, 5_000, _MEDIUM,
         "Shortest heartbeat interval that may be set for a share group.", _ONE_UP),
    _key("group.share.max.heartbeat.interval.ms", _I, 15_000, _MEDIUM,
         "Longest heartbeat interval that may be set for a share group.", _ONE_UP),
    _key("group.share.max.size", _I, 200, _MEDIUM, "Members of one share group.", Range(1, 1000)),
    _key("group.share.assignors", _LIST, ("simple",), _MEDIUM,
         "Who assigns partitions in share groups.", ListOf(SHARE_ASSIGNORS)),
    _key("group.share.initialize.retry.interval.ms", _I, 30_000, _LOW,
         "Time after which the state of a share-partition whose start was not confirmed is "
         "initialised again.", _ONE_UP),
    _key("group.share.delivery.count.limit", _I, 5, _MEDIUM,
         "How often a record is delivered to a share group before it is given up.", Range(2, 10)),
    _key("group.share.min.delivery.count.limit", _I, 2, _MEDIUM,
         "Smallest number of deliveries that may be set for a share group.", Range(2, 5)),
    _key("group.share.max.delivery.count.limit", _I, 10, _MEDIUM,
         "Largest number of deliveries that may be set for a share group.", Range(5, 25)),
    _key("group.share.record.lock.duration.ms", _I, 30_000, _MEDIUM,
         "How long a record is a consumer's own before it is given to another.",
         Range(1000, 3_600_000)),
    _key("group.share.min.record.lock.duration.ms", _I, 15_000, _MEDIUM,
         "Shortest acquisition that may be set for a share group.", Range(1000, 30_000)),
    _key("group.share.max.record.lock.duration.ms", _I, 60_000, _MEDIUM,
         "Longest acquisition that may be set for a share group.", Range(30_000, 3_600_000)),
    _key("group.share.partition.max.record.locks", _I, 2000, _MEDIUM,
         "Records of one share-partition that may be acquired at a time.", Range(100, 10_000)),
    _key("group.share.min.partition.max.record.locks", _I, 100, _MEDIUM,
         "Smallest number of acquired records that may be set for a share group.",
         Range(100, 2000)),
    _key("group.share.max.partition.max.record.locks", _I, 4000, _MEDIUM,
         "Largest number of acquired records that may be set for a share group.",
         Range(2000, 10_000)),
    _key("group.share.max.share.sessions", _I, 2000, _MEDIUM,
         "Share sessions of this broker.", _ONE_UP),
    _key("offset.metadata.max.bytes", _I, 4096, _HIGH, "Largest note beside a committed offset."),
    _key("offsets.retention.minutes", _I, 10_080, _HIGH,
         "Offsets of a group that has been empty for so long are dropped.", _ONE_UP),
    _key("offsets.retention.check.interval.ms", _L, 600_000, _HIGH,
         "Time between two looks for offsets to drop.", _ONE_UP),
    _key("offsets.topic.num.partitions", _I, 50, _HIGH,
         "Partitions of __consumer_offsets.", _ONE_UP),
    _key("offsets.topic.segment.bytes", _I, 104_857_600, _HIGH,
         "Segment size of __consumer_offsets.", _ONE_UP),
)

_QUORUM = (
    _key("process.roles", _LIST, ("broker", "controller"), _HIGH, "What this node is.",
         ListOf(("broker", "controller"), may_be_empty=False)),
    _key("controller.listener.names", _LIST, ("CONTROLLER",), _HIGH,
         "Names of the controller's listeners.",
         kafka="must be given"),
    _key("controller.quorum.voters", _LIST, (), _HIGH,
         "Voters as id@host:port, fixed: their directory ids follow from cluster.id, which must be "
         "given. Empty: as formatting said, or a quorum of one."),
    _key("controller.quorum.bootstrap.servers", _LIST, (), _HIGH,
         "Controllers to ask first, as host:port; they tell who leads."),
    _key("controller.quorum.auto.join.enable", _B, False, _LOW,
         "A controller that does not vote yet asks to be added once it has caught up."),
    _key("controller.quorum.election.timeout.ms", _I, 500, _HIGH,
         "How long a candidate waits for votes.",
         Range(10), kafka=1000),
    _key("controller.quorum.fetch.timeout.ms", _I, 1000, _HIGH,
         "A voter that could not fetch from the leader for so long asks for votes.", Range(20),
         kafka=2000),
    _key("controller.quorum.request.timeout.ms", _I, 500, _MEDIUM,
         "Time-out of a voter's requests; at most controller.quorum.fetch.timeout.ms.",
         Range(10), kafka=2000),
    _key("controller.quorum.retry.backoff.ms", _I, 20, _LOW,
         "Rest before a request is sent again.", _ZERO_UP),
    _key("request.timeout.ms", _I, 30_000, _HIGH, "How long this node waits for another's answer."),
    _key("initial.broker.registration.timeout.ms", _I, 60_000, _MEDIUM,
         "How long a starting broker tries to register."),
    _key("metadata.log.max.record.bytes.between.snapshots", _L, 20_971_520, _HIGH,
         "Bytes of the metadata log after which a snapshot is made.", _ONE_UP),
    _key("metadata.log.max.snapshot.interval.ms", _L, 3_600_000, _HIGH,
         "Time after which a snapshot is made.", _ZERO_UP),
    _key("broker.heartbeat.interval.ms", _I, 500, _MEDIUM,
         "Time between two heartbeats to the controller.",
         kafka=2000),
    _key("broker.session.timeout.ms", _I, 3000, _MEDIUM,
         "A broker whose heartbeats are missing for so long is fenced.", kafka=9000),
    _key("unclean.leader.election.enable", _B, False, _HIGH,
         "Default of unclean.leader.election.enable.", None, _CLUSTER),
    _key("auto.leader.rebalance.enable", _B, True, _HIGH,
         "The controller gives leadership back to preferred leaders."),
    _key("leader.imbalance.check.interval.seconds", _L, 300, _HIGH,
         "Time between two looks for leaders that are not the preferred ones.", _ONE_UP),
)

_REPLICATION = (
    _key("inter.broker.listener.name", _S, None, _MEDIUM,
         "Listener that brokers use among themselves."),
    _key("replica.selector.class", _S, None, _MEDIUM,
         "Who tells a consumer which replica to read from: with the RackAwareReplicaSelector one "
         "in its own rack (client.rack, broker.rack), else always the leader.",
         OneOf(("org.apache.kafka.common.replica.LeaderSelector",
                "org.apache.kafka.common.replica.RackAwareReplicaSelector"))),
    _key("replica.lag.time.max.ms", _L, 30_000, _HIGH,
         "A follower that has not caught up for so long leaves the in-sync replicas."),
    _key("replica.fetch.max.bytes", _I, 1_048_576, _MEDIUM,
         "Bytes of one partition in a follower's fetch.",
         _ZERO_UP),
    _key("replica.fetch.min.bytes", _I, 1, _HIGH, "Bytes a follower's fetch waits for."),
    _key("replica.fetch.wait.max.ms", _I, 500, _HIGH, "Longest wait of a follower's fetch."),
    _key("replica.fetch.backoff.ms", _I, 100, _MEDIUM,
         "Rest of a follower after an error.", _ZERO_UP, kafka=1000),
    _key("replica.fetch.response.max.bytes", _I, 10_485_760, _MEDIUM,
         "Bytes of a follower's fetch.", _ZERO_UP),
    _key("replica.socket.timeout.ms", _I, 30_000, _HIGH, "Time-out of a follower's requests."),
    _key("offsets.commit.timeout.ms", _I, 5_000, _HIGH,
         "How long a commit waits for replicas.", _ONE_UP),
    _key("offsets.topic.replication.factor", _H, 1, _HIGH,
         "Replicas of __consumer_offsets.", _ONE_UP, kafka=3),
)

_LATER = _awaiting("a need for it",
    _key("security.inter.broker.protocol", _S, "PLAINTEXT", _MEDIUM,
         "Protocol among brokers; only PLAINTEXT is served.",
         OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))),
    _key("num.replica.fetchers", _I, 1, _HIGH, "Fetchers to each other broker.", _ONE_UP),
    _key("log.dir.failure.timeout.ms", _L, 30_000, _LOW,
         "How long a node lives on when it can't tell the controller of a failed directory.",
         _ONE_UP),
    _key("controller.quorum.election.backoff.max.ms", _I, 1000, _HIGH,
         "Longest rest between elections.",
         _ZERO_UP),
    _key("controller.quorum.append.linger.ms", _I, 25, _MEDIUM,
         "Kafka gathers metadata writes for so long; here what arrives during one sync shares "
         "the next.", _ZERO_UP),
)

_TRANSACTIONS = (
    _key("transaction.max.timeout.ms", _I, 900_000, _HIGH,
         "Longest transaction a producer may ask for.",
         _ONE_UP),
    _key("transactional.id.expiration.ms", _I, 604_800_000, _HIGH,
         "A transactional id without use for so long is forgotten.", _ONE_UP),
    _key("transaction.state.log.num.partitions", _I, 50, _HIGH,
         "Partitions of __transaction_state.", _ONE_UP),
    _key("transaction.state.log.replication.factor", _H, 1, _HIGH,
         "Replicas of __transaction_state.", _ONE_UP,
         kafka=3),
    _key("transaction.state.log.min.isr", _I, 1, _HIGH,
         "min.insync.replicas of __transaction_state.", _ONE_UP,
         kafka=2),
    _key("transaction.state.log.segment.bytes", _I, 104_857_600, _HIGH,
         "Segment size of __transaction_state.",
         _ONE_UP),
    _key("transaction.state.log.load.buffer.size", _I, 5_242_880, _HIGH,
         "Bytes read at once when transactions are loaded.", _ONE_UP),
    _key("share.coordinator.state.topic.num.partitions", _I, 50, _HIGH,
         "Partitions of __share_group_state.", _ONE_UP),
    _key("share.coordinator.state.topic.replication.factor", _H, 1, _HIGH,
         "Replicas of __share_group_state.", _ONE_UP,
         kafka=3),
    _key("share.coordinator.state.topic.min.isr", _H, 1, _HIGH,
         "min.insync.replicas of __share_group_state.", _ONE_UP,
         kafka=2),
    _key("share.coordinator.state.topic.segment.bytes", _I, 104_857_600, _HIGH,
         "Segment size of __share_group_state.", _ONE_UP),
    _key("share.coordinator.load.buffer.size", _I, 5_242_880, _HIGH,
         "Bytes read at once when the state of share groups is loaded.", _ONE_UP),
    _key("share.coordinator.write.timeout.ms", _I, 5_000, _HIGH,
         "How long a write of a share group's state waits for the other replicas.", _ONE_UP),
    _key("share.coordinator.snapshot.update.records.per.snapshot", _I, 500, _MEDIUM,
         "Updates of a share-partition's state between two snapshots of it.", Range(0, 500)),
    _key("share.coordinator.state.topic.prune.interval.ms", _I, 300_000, _LOW,
         "Time between two looks for what snapshots made redundant.", _ONE_UP),
    _key("share.coordinator.cold.partition.snapshot.interval.ms", _I, 300_000, _LOW,
         "A share-partition that was not written for so long gets a new snapshot.", _ONE_UP),
    _key("transaction.abort.timed.out.transaction.cleanup.interval.ms", _I, 10_000, _LOW,
         "Time between two looks for transactions to abort.", _ONE_UP),
    _key("transaction.remove.expired.transaction.cleanup.interval.ms", _I, 3_600_000, _LOW,
         "Time between two looks for transactional ids to forget.", _ONE_UP),
    _key("transaction.partition.verification.enable", _B, True, _LOW,
         "Check that a partition belongs to the transaction before writing to it.", None, _CLUSTER),
)

_TWO_PHASE_COMMIT = _awaiting("two-phase commit",
    _key("transaction.two.phase.commit.enable", _B, False, _LOW,
         "Transactions without a time limit."),
)

_COMPACTION = (
    _key("log.cleaner.enable", _B, True, _MEDIUM, "Clean compacted topics."),
    _key("log.cleaner.threads", _I, 1, _MEDIUM, "Cleaners at work at once.", _ZERO_UP, _CLUSTER),
    _key("log.cleaner.backoff.ms", _L, 15_000, _MEDIUM,
         "Rest of a cleaner that found nothing to do.",
         _ZERO_UP, _CLUSTER),
    _key("log.cleaner.dedupe.buffer.size", _L, 134_217_728, _MEDIUM,
         "Memory for the keys seen by one cleaning.", None, _CLUSTER),
    _key("log.cleaner.io.buffer.load.factor", _D, 0.9, _LOW,
         "How full that memory may get.", Range(0, 1), _CLUSTER),
    _key("replica.alter.log.dirs.io.max.bytes.per.second", _L, LONG_MAX, _MEDIUM,
         "Bytes that replicas on their way to another directory of their broker may be copied in a "
         "second.", _ZERO_UP, _BROKER),
    _key("log.cleaner.io.max.bytes.per.second", _D, DOUBLE_MAX, _MEDIUM,
         "Bytes that cleaning may read and write in a second.", None, _CLUSTER),
    _key("log.cleaner.delete.retention.ms", _L, 86_400_000, _MEDIUM,
         "Default of delete.retention.ms.",
         _ZERO_UP, _CLUSTER),
    _key("log.cleaner.min.cleanable.ratio", _D, 0.5, _MEDIUM,
         "Default of min.cleanable.dirty.ratio.",
         Range(0, 1), _CLUSTER),
    _key("log.cleaner.min.compaction.lag.ms", _L, 0, _MEDIUM,
         "Default of min.compaction.lag.ms.", _ZERO_UP,
         _CLUSTER),
    _key("log.cleaner.max.compaction.lag.ms", _L, LONG_MAX, _MEDIUM,
         "Default of max.compaction.lag.ms.",
         _ONE_UP, _CLUSTER),
)

_QUOTAS = (
    _key("quota.window.num", _I, 11, _LOW, "Samples that a client's rate is made of.", _ONE_UP),
    _key("quota.window.size.seconds", _I, 1, _LOW, "Time that each of them covers.", _ONE_UP),
    _key("replication.quota.window.num", _I, 11, _LOW,
         "Samples that the rate of throttled replication is made of.", _ONE_UP),
    _key("replication.quota.window.size.seconds", _I, 1, _LOW,
         "Time that each of them covers.", _ONE_UP),
    _key("leader.replication.throttled.rate", _L, LONG_MAX, _MEDIUM,
         "Bytes a second that this broker gives replicas out of sync, of the partitions that "
         "leader.replication.throttled.replicas of their topic names.", _ZERO_UP, _CLUSTER),
    _key("follower.replication.throttled.rate", _L, LONG_MAX, _MEDIUM,
         "Bytes a second that this broker fetches for replicas out of sync, of the partitions "
         "that follower.replication.throttled.replicas of their topic names.", _ZERO_UP, _CLUSTER),
)

_MOVES = _awaiting("moving replicas between log directories",
)

_TELEMETRY = (
    _key("telemetry.max.bytes", _I, 1_048_576, _LOW, "Most that a client may push.", _ONE_UP),
)

_SNAPSHOTS = _awaiting("a choice of segments in the metadata log",
    _key("metadata.log.segment.bytes", _I, 2**30, _HIGH, "Segment size of the metadata log.",
         Range(8_388_608)),
    _key("metadata.log.segment.ms", _L, 604_800_000, _HIGH, "Segment age of the metadata log."),
    _key("metadata.max.retention.bytes", _L, 104_857_600, _HIGH, "Size kept of the metadata log."),
    _key("metadata.max.retention.ms", _L, 604_800_000, _HIGH, "Age kept of the metadata log."),
)

_TIERED = _awaiting("tiered storage",
    _key("log.local.retention.bytes", _L, -2, _MEDIUM,
         "Default of local.retention.bytes.", Range(-2)),
    _key("log.local.retention.ms", _L, -2, _MEDIUM,
         "Default of local.retention.ms.", Range(-2)),
)

_SECURITY = _awaiting("TLS and SASL",
    _key("listener.security.protocol.map", _S,
         "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", _LOW,
         "Security protocol of each listener name; only PLAINTEXT is served."),
)

_IDLE = (
    _idle("num.network.threads", _I, 3, _ONE_UP),
    _idle("num.io.threads", _I, 8, _ONE_UP),
    _idle("background.threads", _I, 10, _ONE_UP),
    _idle("num.recovery.threads.per.data.dir", _I, 2, _ONE_UP),
    _idle("num.replica.alter.log.dirs.threads", _I, None),
    _idle("max.connection.creation.rate", _I, INT_MAX, _ZERO_UP),
    _idle("connections.max.reauth.ms", _L, 0),
    _idle("connection.failed.authentication.delay.ms", _I, 100, _ZERO_UP),
    _idle("controlled.shutdown.enable", _B, True),
    _idle("controller.socket.timeout.ms", _I, 30_000),
    _idle("controller.quorum.fetch.max.bytes", _I, 1_048_576, _ONE_UP),
    _idle("controller.quorum.fetch.snapshot.max.bytes", _I, 1_048_576, _ONE_UP),
    _idle("metadata.max.idle.interval.ms", _I, 500, _ZERO_UP),
    _idle("early.start.listeners", _LIST, None),
    _idle("log.cleaner.io.buffer.size", _I, 524_288, _ZERO_UP),
    _idle("fetch.purgatory.purge.interval.requests", _I, 1000),
    _idle("producer.purgatory.purge.interval.requests", _I, 1000),
    _idle("delete.records.purgatory.purge.interval.requests", _I, 1),
    _idle("group.coordinator.threads", _I, 4, _ONE_UP),
    _idle("group.coordinator.background.threads", _I, 2, _ONE_UP),
    _idle("group.coordinator.append.linger.ms", _I, -1, Range(-1)),
    _idle("group.consumer.regex.refresh.interval.ms", _I, 600_000, Range(10_000)),
    _idle("group.consumer.assignor.offload.enable", _B, True),
    _idle("group.share.assignment.interval.ms", _I, 1_000, _ZERO_UP),
    _idle("group.share.min.assignment.interval.ms", _I, 0, _ZERO_UP),
    _idle("group.share.max.assignment.interval.ms", _I, 15_000, _ZERO_UP),
    _idle("group.share.assignor.offload.enable", _B, True),
    _idle("share.fetch.purgatory.purge.interval.requests", _I, 1000),
    _idle("share.coordinator.threads", _I, 1, _ONE_UP),
    _idle("share.coordinator.cached.buffer.max.bytes", _I, 1_048_588, Range(524_288)),
    _idle("group.share.persister.class.name", _S,
          "org.apache.kafka.server.share.persister.DefaultStatePersister"),
    _idle("share.coordinator.append.linger.ms", _I, -1, Range(-1)),
    _idle("share.coordinator.state.topic.compression.codec", _I, 0),
    _idle("replica.socket.receive.buffer.bytes", _I, 65_536),
    _idle("socket.connection.setup.timeout.ms", _L, 10_000),
    _idle("socket.connection.setup.timeout.max.ms", _L, 30_000),
    _idle("metric.reporters", _LIST, ()),
    _idle("metrics.num.samples", _I, 2, _ONE_UP),
    _idle("metrics.recording.level", _S, "INFO"),
    _idle("metrics.sample.window.ms", _L, 30_000, _ONE_UP),
    _idle("socket.listen.backlog.size", _I, 50, _ONE_UP),
    _idle("max.connections.per.ip", _I, INT_MAX, _ZERO_UP),
    _idle("max.connections.per.ip.overrides", _S, ""),
    _idle("queued.max.requests", _I, 500, _ONE_UP),
    _idle("queued.max.request.bytes", _L, -1),
    _idle("log.flush.offset.checkpoint.interval.ms", _I, 60_000, _ZERO_UP),
    _idle("log.flush.start.offset.checkpoint.interval.ms", _I, 60_000, _ZERO_UP),
    _idle("producer.id.expiration.check.interval.ms", _I, 600_000, _ONE_UP),
    _idle("offsets.topic.compression.codec", _I, 0),
    _idle("offsets.load.buffer.size", _I, 5_242_880, _ONE_UP),
    _idle("create.topic.policy.class.name", _C, None),
    _idle("alter.config.policy.class.name", _C, None),
)
# fmt: on

BROKER_CONFIG = ConfigDef(
    "broker",
    (
        *_NODE,
        *_NETWORK,
        *_LOG,
        *_FETCH,
        *_GROUPS,
        *_QUORUM,
        *_REPLICATION,
        *_LATER,
        *_TRANSACTIONS,
        *_TWO_PHASE_COMMIT,
        *_COMPACTION,
        *_QUOTAS,
        *_MOVES,
        *_TELEMETRY,
        *_SNAPSHOTS,
        *_TIERED,
        *_SECURITY,
        *_IDLE,
    ),
)
