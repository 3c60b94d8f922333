"""The effective configuration of topics on this broker, and what of it a log needs.

Owns: which topics share a configuration, the way from a topic's keys to a log's.
Must not know: partitions, disks.

Invariant: topics without values of their own, nearly all of them, share one object until a
default of the broker changes.
"""

from headrace.base.broker_config import BrokerConfig
from headrace.base.topic_config import TopicConfig
from headrace.cluster.image import ClusterImage
from headrace.log.config import LogConfig


class TopicConfigs:
    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._default: TopicConfig | None = None

    def of(self, image: ClusterImage, name: str) -> TopicConfig:
        overrides = image.topic_configs(name)
        if overrides:
            return self._config.topic(overrides)
        if self._default is None:
            self._default = self._config.topic({})
        return self._default

    def on_defaults_changed(self) -> None:
        self._default = None

    def log_config(self, config: TopicConfig) -> LogConfig:
        return LogConfig(
            segment_bytes=config.segment_size_bytes,
            segment_ms=config.segment_ms,
            segment_jitter_ms=config.segment_jitter_ms,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            retention_ms=config.retention_ms,
            retention_bytes=config.retention_bytes,
            file_delete_delay_ms=config.file_delete_delay_ms,
            flush_messages=config.flush_messages,
            flush_ms=config.flush_ms,
            preallocate=config.preallocate,
            log_append_time=config.log_append_time,
            delete=config.deleted,
            compact=config.compacted,
            min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
            min_compaction_lag_ms=config.min_compaction_lag_ms,
            max_compaction_lag_ms=config.max_compaction_lag_ms,
            delete_retention_ms=config.delete_retention_ms,
            producer_id_expiration_ms=int(self._config["producer.id.expiration.ms"]),
        )
