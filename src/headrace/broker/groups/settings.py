"""The configuration that groups obey, under Kafka's own key names.

Owns: which keys, and their units. Values come from the broker's configuration.
"""

from dataclasses import dataclass
from typing import Any, Protocol

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member may wait for its first generation, as in Kafka (not configurable)."""


class Config(Protocol):
    def __getitem__(self, key: str, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class GroupSettings:
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    group_size_max: int = 2**31 - 1
    offset_metadata_bytes_max: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_interval_ms: int = 600_000

    @classmethod
    def from_config(cls, config: Config) -> "GroupSettings":
        return cls(
            session_timeout_ms_min=int(config["group.min.session.timeout.ms"]),
            session_timeout_ms_max=int(config["group.max.session.timeout.ms"]),
            initial_rebalance_delay_ms=int(config["group.initial.rebalance.delay.ms"]),
            group_size_max=int(config["group.max.size"]),
            offset_metadata_bytes_max=int(config["offset.metadata.max.bytes"]),
            offsets_retention_ms=int(config["offsets.retention.minutes"]) * 60_000,
            offsets_retention_check_interval_ms=int(config["offsets.retention.check.interval.ms"]),
        )
