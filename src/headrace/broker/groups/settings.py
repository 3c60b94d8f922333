"""The configuration that groups obey, under Kafka's own key names.

Owns: which keys, and their units. Values come from the broker's configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from headrace.base.group_config import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_SESSION_TIMEOUT,
)

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member may wait for its first generation, as in Kafka (not configurable)."""


class Config(Protocol):
    def __getitem__(self, key: str, /) -> Any: ...


_ASSIGNOR_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
    "org.apache.kafka.coordinator.group.assignor.SimpleAssignor": "simple",
}


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Of consumer groups (KIP-848); the first three may differ from group to group."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    group_size_max: int = 2**31 - 1
    classic_group_size_max: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first is that of groups whose members name none."""
    migration_policy: str = "bidirectional"

    @classmethod
    def from_config(cls, config: Config) -> "ConsumerSettings":
        named = [str(name) for name in config["group.consumer.assignors"]]
        return cls(
            session_timeout_ms=int(config["group.consumer.session.timeout.ms"]),
            heartbeat_interval_ms=int(config["group.consumer.heartbeat.interval.ms"]),
            assignment_interval_ms=int(config["group.consumer.assignment.interval.ms"]),
            group_size_max=int(config["group.consumer.max.size"]),
            classic_group_size_max=int(config["group.max.size"]),
            assignors=tuple(_ASSIGNOR_CLASSES.get(name, name) for name in named),
            migration_policy=str(config["group.consumer.migration.policy"]).lower(),
        )

    def of_group(self, overrides: Mapping[str, str]) -> "ConsumerSettings":
        """With what was set for one group."""
        if not overrides:
            return self
        return replace(
            self,
            session_timeout_ms=int(overrides.get(SESSION_TIMEOUT, self.session_timeout_ms)),
            heartbeat_interval_ms=int(
                overrides.get(HEARTBEAT_INTERVAL, self.heartbeat_interval_ms)
            ),
            assignment_interval_ms=int(
                overrides.get(ASSIGNMENT_INTERVAL, self.assignment_interval_ms)
            ),
        )

    @property
    def allows_upgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "upgrade")

    @property
    def allows_downgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "downgrade")


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """Of share groups (KIP-932), as members see them; the first two may differ between groups."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    group_size_max: int = 200
    initialize_retry_interval_ms: int = 30_000
    assignor: str = "simple"

    @classmethod
    def from_config(cls, config: Config) -> "ShareSettings":
        return cls(
            session_timeout_ms=int(config["group.share.session.timeout.ms"]),
            heartbeat_interval_ms=int(config["group.share.heartbeat.interval.ms"]),
            group_size_max=int(config["group.share.max.size"]),
            initialize_retry_interval_ms=int(config["group.share.initialize.retry.interval.ms"]),
            assignor=_ASSIGNOR_CLASSES.get(named := str(config["group.share.assignors"][0]), named),
        )

    def of_group(self, overrides: Mapping[str, str]) -> "ShareSettings":
        """With what was set for one group."""
        if not overrides:
            return self
        return replace(
            self,
            session_timeout_ms=int(overrides.get(SHARE_SESSION_TIMEOUT, self.session_timeout_ms)),
            heartbeat_interval_ms=int(
                overrides.get(SHARE_HEARTBEAT_INTERVAL, self.heartbeat_interval_ms)
            ),
        )


@dataclass(frozen=True, slots=True)
class GroupSettings:
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    group_size_max: int = 2**31 - 1
    offset_metadata_bytes_max: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_interval_ms: int = 600_000
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)
    share: ShareSettings = field(default_factory=ShareSettings)

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
            consumer=ConsumerSettings.from_config(config),
            share=ShareSettings.from_config(config),
        )
