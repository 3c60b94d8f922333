"""What a partition's log must know of its topic's configuration.

Owns: the values with Kafka's defaults, and their reading from Kafka's own key names.
Must not know: where a value came from (topic, broker, default): `cluster` resolves that.
"""

from collections.abc import Mapping
from dataclasses import dataclass

DAY_MS = 24 * 60 * 60 * 1000
NEVER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    """-1: for ever."""
    retention_bytes: int = -1
    """-1: no bound."""
    file_delete_delay_ms: int = 60_000
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    preallocate: bool = False
    fill_ahead_bytes: int = 0
    """Zeros that stand on disk behind the active segment's end, so that a sync changes no size; 0:
    none. For a log that is synced at every turn, and read by others only as far as they know it."""
    log_append_time: bool = False
    """`message.timestamp.type=LogAppendTime`."""
    delete: bool = True
    """`cleanup.policy` holds `delete`."""
    compact: bool = False
    """`cleanup.policy` holds `compact`: offsets may have gaps."""
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    delete_retention_ms: int = DAY_MS
    producer_id_expiration_ms: int = DAY_MS

    @property
    def segment_age_ms(self) -> int:
        """`segment.ms`, or less where a record may not stay uncompacted that long."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @classmethod
    def of_topic(cls, configs: Mapping[str, str]) -> "LogConfig":
        """From resolved, already validated values by Kafka's names; absent ones by default."""
        values: dict[str, int | bool | float] = {}
        for name, key in _INTEGERS.items():
            if key in configs:
                values[name] = int(configs[key])
        if "min.cleanable.dirty.ratio" in configs:
            values["min_cleanable_dirty_ratio"] = float(configs["min.cleanable.dirty.ratio"])
        if "preallocate" in configs:
            values["preallocate"] = configs["preallocate"].lower() == "true"
        if "message.timestamp.type" in configs:
            values["log_append_time"] = configs["message.timestamp.type"] == "LogAppendTime"
        if "cleanup.policy" in configs:
            policies = {policy.strip() for policy in configs["cleanup.policy"].split(",")}
            values["delete"] = "delete" in policies
            values["compact"] = "compact" in policies
        return cls(**values)  # type: ignore[arg-type]


_INTEGERS = {
    "segment_bytes": "segment.bytes",
    "segment_ms": "segment.ms",
    "segment_jitter_ms": "segment.jitter.ms",
    "segment_index_bytes": "segment.index.bytes",
    "index_interval_bytes": "index.interval.bytes",
    "retention_ms": "retention.ms",
    "retention_bytes": "retention.bytes",
    "file_delete_delay_ms": "file.delete.delay.ms",
    "flush_messages": "flush.messages",
    "flush_ms": "flush.ms",
    "min_compaction_lag_ms": "min.compaction.lag.ms",
    "max_compaction_lag_ms": "max.compaction.lag.ms",
    "delete_retention_ms": "delete.retention.ms",
    "producer_id_expiration_ms": "producer.id.expiration.ms",
}
