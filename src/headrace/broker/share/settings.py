"""The configuration that the delivery to a share group obeys.

Owns: which keys, and where a group's own value wins over the broker's. Must not know: who stores
them. Spec: Kafka 4.3's ShareGroupConfig and GroupConfig.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.base.group_config import (
    BY_DURATION,
    SHARE_AUTO_OFFSET_RESET,
    SHARE_DELIVERY_COUNT_LIMIT,
    SHARE_ISOLATION_LEVEL,
    SHARE_PARTITION_MAX_RECORD_LOCKS,
    SHARE_RECORD_LOCK_DURATION,
    SHARE_RENEW_ACKNOWLEDGE,
    duration_ms,
)
from headrace.broker.share.partition.states import Limits

EARLIEST = "earliest"
LATEST = "latest"
_READ_COMMITTED = "read_committed"


class Config(Protocol):
    def __getitem__(self, key: str, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class ShareSettings:
    lock_duration_ms: int = 30_000
    limits: Limits = field(default_factory=Limits)
    auto_offset_reset: str = LATEST
    is_read_committed: bool = False
    may_renew: bool = True

    @classmethod
    def of_group(cls, config: Config, overrides: Mapping[str, str]) -> "ShareSettings":
        """The broker's values, and what was set for one group."""

        def number(name: str) -> int:
            return int(overrides[name] if name in overrides else config[f"group.{name}"])

        return cls(
            lock_duration_ms=number(SHARE_RECORD_LOCK_DURATION),
            limits=Limits(
                delivery_count_limit=number(SHARE_DELIVERY_COUNT_LIMIT),
                in_flight_max=number(SHARE_PARTITION_MAX_RECORD_LOCKS),
            ),
            auto_offset_reset=overrides.get(SHARE_AUTO_OFFSET_RESET, LATEST).lower(),
            is_read_committed=overrides.get(SHARE_ISOLATION_LEVEL, "").lower() == _READ_COMMITTED,
            may_renew=overrides.get(SHARE_RENEW_ACKNOWLEDGE, "true").lower() == "true",
        )

    @property
    def reset_duration_ms(self) -> int | None:
        """How far back `by_duration:` reaches; None for the other ways."""
        if not self.auto_offset_reset.startswith(BY_DURATION):
            return None
        return duration_ms(self.auto_offset_reset.removeprefix(BY_DURATION))
