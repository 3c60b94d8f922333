"""The 34 topic configs: Kafka's names, types and defaults, and the typed view of one topic.

Owns: `TOPIC_CONFIG` (the definitions), `TopicConfig` (what the broker and the log read), the
fall-back from a topic's own value to the broker's synonym to the default, and the rules that
bind two keys together.
Must not know: who stores overrides (`cluster.configs`), how a broker is configured (a mapping
of typed broker values is handed in).
Spec: Kafka 4.3's LogConfig and ServerTopicConfigSynonyms.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from headrace.base.config import (
    LONG_MAX,
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ListOf,
    OneOf,
    Range,
    Validator,
)

_DAY_MS = 86_400_000
_WEEK_MS = 7 * _DAY_MS
CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
CLEANUP_POLICIES = ("compact", "delete")


class ThrottledReplicas:
    """`partition:broker` pairs, or `*` for all."""

    def refusal(self, value: Any) -> str | None:
        if value == ("*",):
            return None
        for pair in value:
            partition, _, broker = pair.partition(":")
            if not (partition.isascii() and partition.isdigit() and broker.isdigit()):
                return f"'{pair}' is not partition:broker; use such pairs, or * for all replicas"
        return None

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],... or *"


def _key(
    name: str,
    type_: ConfigType,
    default: Any,
    doc: str,
    validator: Validator | None = None,
    *synonyms: str,
    internal: bool = False,
    awaits: str = "",
) -> ConfigKey:
    """`awaits` names the later part of the project with which the key comes into effect."""
    if awaits:
        doc += f" Without effect until there is {awaits}."
    return ConfigKey(
        name,
        type_,
        default,
        doc,
        validator,
        synonyms=synonyms,
        internal=internal,
        honoured=not awaits,
    )


_B, _S, _I, _L, _D, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)

# fmt: off
TOPIC_CONFIG = ConfigDef("topic", (
    _key("cleanup.policy", _LIST, ("delete",),
         "What happens to old records: 'delete' removes whole segments by age and size, 'compact' "
         "keeps the last value of each key; both may be given.",
         ListOf(CLEANUP_POLICIES), "log.cleanup.policy"),
    _key("compression.gzip.level", _I, -1,
         "Level used when the broker itself writes gzip; -1 is the codec's own default.",
         Range(1, 9, also=(-1,)), "compression.gzip.level"),
    _key("compression.lz4.level", _I, 9, "Level used when the broker itself writes LZ4.",
         Range(1, 17), "compression.lz4.level"),
    _key("compression.type", _S, "producer",
         "The codec batches are stored with. 'producer' stores them as they came, which costs "
         "nothing; any other word makes the broker recompress what differs.",
         OneOf(CODECS), "compression.type"),
    _key("compression.zstd.level", _I, 3, "Level used when the broker itself writes Zstandard.",
         Range(-131072, 22), "compression.zstd.level"),
    _key("delete.retention.ms", _L, _DAY_MS,
         "How long a compacted topic keeps tombstones, and with that how long a reader from offset "
         "0 may take and still see every deletion.",
         Range(0), "log.cleaner.delete.retention.ms"),
    _key("file.delete.delay.ms", _L, 60_000,
         "How long a deleted segment stays on disk under its .deleted name.",
         Range(0), "log.segment.delete.delay.ms"),
    _key("flush.messages", _L, LONG_MAX,
         "Records after which the log is synced to disk. 1 means that a record is acknowledged "
         "only once it is on disk.",
         Range(1), "log.flush.interval.messages"),
    _key("flush.ms", _L, LONG_MAX, "Longest time that a record may stay in the page cache only.",
         Range(0), "log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    _key("follower.replication.throttled.replicas", _LIST, (),
         "Replicas that their brokers fetch no faster than follower.replication.throttled.rate "
         "while they are out of sync: partition:broker, or * for all.", ThrottledReplicas()),
    _key("index.interval.bytes", _I, 4096,
         "Log bytes between two entries of the offset index: smaller finds an offset faster and "
         "makes the index larger.",
         Range(0), "log.index.interval.bytes"),
    _key("internal.segment.bytes", _I, None,
         "Segment size for tests, free of the lower bound of segment.bytes.", internal=True),
    _key("leader.replication.throttled.replicas", _LIST, (),
         "Leaders that give replicas out of sync no more than leader.replication.throttled.rate: "
         "partition:broker, or * for all.", ThrottledReplicas()),
    _key("local.retention.bytes", _L, -2,
         "Bytes kept locally; -2 follows retention.bytes.",
         Range(-2), "log.local.retention.bytes", awaits="tiered storage"),
    _key("local.retention.ms", _L, -2,
         "Time kept locally; -2 follows retention.ms.",
         Range(-2), "log.local.retention.ms", awaits="tiered storage"),
    _key("max.compaction.lag.ms", _L, LONG_MAX,
         "Longest time that a record of a compacted topic may stay uncompacted.",
         Range(1), "log.cleaner.max.compaction.lag.ms"),
    _key("max.message.bytes", _I, 1_048_588,
         "Largest record batch accepted, as it is stored (compressed).",
         Range(0), "message.max.bytes"),
    _key("message.timestamp.after.max.ms", _L, 3_600_000,
         "How far a record's CreateTime may lie ahead of the broker's clock.",
         Range(0), "log.message.timestamp.after.max.ms"),
    _key("message.timestamp.before.max.ms", _L, LONG_MAX,
         "How far a record's CreateTime may lie behind the broker's clock.",
         Range(0), "log.message.timestamp.before.max.ms"),
    _key("message.timestamp.type", _S, "CreateTime",
         "Whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime).",
         OneOf(TIMESTAMP_TYPES), "log.message.timestamp.type"),
    _key("min.cleanable.dirty.ratio", _D, 0.5,
         "Share of a compacted log that must be uncompacted before it is cleaned.",
         Range(0, 1), "log.cleaner.min.cleanable.ratio"),
    _key("min.compaction.lag.ms", _L, 0,
         "Shortest time that a record stays before compaction may remove it.",
         Range(0), "log.cleaner.min.compaction.lag.ms"),
    _key("min.insync.replicas", _I, 1,
         "In-sync replicas that must have a record before acks=all is answered; with fewer alive "
         "such a produce is refused.",
         Range(1), "min.insync.replicas"),
    _key("preallocate", _B, False, "Reserve a segment's disk space when it is created.",
         None, "log.preallocate"),
    _key("remote.log.copy.disable", _B, False,
         "Copy nothing more to the remote tier.", awaits="tiered storage"),
    _key("remote.log.delete.on.disable", _B, False,
         "Delete the remote tier's data when it is switched off.",
         awaits="tiered storage"),
    _key("remote.storage.enable", _B, False, "Keep old segments of this topic in the remote tier.",
         awaits="tiered storage"),
    _key("retention.bytes", _L, -1,
         "Size of a partition above which its oldest segments are deleted; -1 is no limit.",
         None, "log.retention.bytes"),
    _key("retention.ms", _L, _WEEK_MS,
         "Age above which segments are deleted, by their newest record; -1 is no limit.",
         Range(-1), "log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    _key("segment.bytes", _I, 2**30,
         "Size at which a new segment is begun; retention deletes whole segments.",
         Range(1_048_576), "log.segment.bytes"),
    _key("segment.index.bytes", _I, 10_485_760,
         "Largest size of an index file; a full index begins a new segment.",
         Range(4), "log.index.size.max.bytes"),
    _key("segment.jitter.ms", _L, 0,
         "Largest random time taken off segment.ms, so that partitions do not roll all at once.",
         Range(0), "log.roll.jitter.ms", "log.roll.jitter.hours"),
    _key("segment.ms", _L, _WEEK_MS,
         "Age at which a new segment is begun even if the current one is not full.",
         Range(1), "log.roll.ms", "log.roll.hours"),
    _key("unclean.leader.election.enable", _B, False,
         "Let a replica that is not in sync become leader when no other is left; loses records.",
         None, "unclean.leader.election.enable"),
))
# fmt: on


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic's effective values. A field is its key with dots as underscores."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = _DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    internal_segment_bytes: int | None = None
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = _WEEK_MS
    segment_bytes: int = 2**30
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = _WEEK_MS
    unclean_leader_election_enable: bool = False

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deleted(self) -> bool:
        """True if retention removes old segments."""
        return "delete" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def segment_size_bytes(self) -> int:
        """What the log rolls by: the tests' key goes before the users'."""
        if self.internal_segment_bytes is not None:
            return self.internal_segment_bytes
        return self.segment_bytes

    @classmethod
    def of(
        cls, overrides: Mapping[str, str], broker_values: Mapping[str, Any] | None = None
    ) -> "TopicConfig":
        """Overrides (texts that were accepted before) over the broker's values."""
        values = topic_defaults(broker_values or {})
        for name, text in overrides.items():
            # A name that this version does not know is kept in the metadata log and ignored.
            if name in TOPIC_CONFIG.keys:
                values[name] = TOPIC_CONFIG.parse_one(name, text)
        return cls(**{name.replace(".", "_"): value for name, value in values.items()})


assert {field.name for field in fields(TopicConfig)} == {
    name.replace(".", "_") for name in TOPIC_CONFIG.keys
}

_SCALES: dict[str, int] = {
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
    "log.roll.hours": 3_600_000,
    "log.roll.jitter.hours": 3_600_000,
}
"""Broker synonyms whose unit is larger than the topic key's milliseconds."""


def from_synonym(synonym: str, value: Any) -> Any:
    """A broker value in the unit of the topic key that it stands for."""
    scale = _SCALES.get(synonym, 1)
    return value if scale == 1 or value < 0 else value * scale


def synonym_in_force(key: ConfigKey, broker_values: Mapping[str, Any]) -> str | None:
    """The most specific broker synonym that has a value, or None."""
    for synonym in key.synonyms:
        if broker_values.get(synonym) is not None:
            return synonym
    return None


_defaults: tuple[Mapping[str, Any], dict[str, Any]] = ({}, {})
"""The broker's values asked about last, and what follows from them: every new topic asks."""


def topic_defaults(broker_values: Mapping[str, Any]) -> dict[str, Any]:
    """Typed values of all topic keys for a topic without overrides on this broker."""
    global _defaults
    if _defaults[0] is not broker_values:
        _defaults = (broker_values, _topic_defaults(broker_values))
    return _defaults[1].copy()


def _topic_defaults(broker_values: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, key in TOPIC_CONFIG.keys.items():
        synonym = synonym_in_force(key, broker_values)
        values[name] = (
            key.default if synonym is None else from_synonym(synonym, broker_values[synonym])
        )
    return values


def _check_compaction_lags(values: Mapping[str, Any]) -> str | None:
    if values["max.compaction.lag.ms"] < values["min.compaction.lag.ms"]:
        return (
            f"min.compaction.lag.ms ({values['min.compaction.lag.ms']}) must not be above "
            f"max.compaction.lag.ms ({values['max.compaction.lag.ms']})"
        )
    return None


def _check_remote_storage(values: Mapping[str, Any]) -> str | None:
    if values["remote.storage.enable"]:
        return "remote.storage.enable: tiered storage is not enabled on this cluster"
    return None


_RULES: tuple[tuple[str, Callable[[Mapping[str, Any]], str | None]], ...] = (
    ("min.compaction.lag.ms", _check_compaction_lags),
    ("remote.storage.enable", _check_remote_storage),
)


def validate_topic_configs(
    overrides: Mapping[str, str | None], broker_values: Mapping[str, Any] | None = None
) -> None:
    """Refuse unknown names, nulls, bad values and bad combinations. Raises ConfigError."""
    given: dict[str, Any] = {}
    for name, text in overrides.items():
        key = TOPIC_CONFIG.key(name)
        if text is None:
            raise ConfigError(name, f"Null value not supported for topic configs: {name}")
        given[name] = key.parse(text)
    values = topic_defaults(broker_values or {})
    values.update(given)
    for name, rule in _RULES:
        reason = rule(values)
        if reason is not None:
            raise ConfigError(name, f"Invalid value for configuration {name}: {reason}")
