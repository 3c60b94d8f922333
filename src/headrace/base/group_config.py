"""The configs of a single group: what may be set for it beside what the broker says for all.

Owns: `GROUP_CONFIG` (the definitions) and the rules that bind them to the broker's own keys.
Must not know: who stores overrides (`cluster.configs`), what groups do with them.
Spec: Kafka 4.3's GroupConfig (KIP-1043, KIP-932).
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.base.config import ConfigDef, ConfigError, ConfigKey, ConfigType, OneOf, Range

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
SHARE_SESSION_TIMEOUT = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL = "share.heartbeat.interval.ms"
SHARE_RECORD_LOCK_DURATION = "share.record.lock.duration.ms"
SHARE_DELIVERY_COUNT_LIMIT = "share.delivery.count.limit"
SHARE_PARTITION_MAX_RECORD_LOCKS = "share.partition.max.record.locks"
SHARE_AUTO_OFFSET_RESET = "share.auto.offset.reset"
SHARE_ISOLATION_LEVEL = "share.isolation.level"
SHARE_RENEW_ACKNOWLEDGE = "share.renew.acknowledge.enable"

_DURATION = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
BY_DURATION = "by_duration:"


def duration_ms(text: str) -> int | None:
    """A time in ISO 8601, as `P1DT2H` or `PT0.5S`, in milliseconds; None if it is none."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes = (int(found[name] or 0) for name in ("days", "hours", "minutes"))
    seconds = float(found["seconds"] or 0)
    return (days * 24 * 60 + hours * 60 + minutes) * 60_000 + round(seconds * 1000)


class ResetStrategy(NamedTuple):
    """`earliest`, `latest`, or `by_duration:` and a time in ISO 8601."""

    def refusal(self, value: Any) -> str | None:
        text = str(value)
        if text.lower() in ("earliest", "latest"):
            return None
        if text.lower().startswith(BY_DURATION):
            if duration_ms(text[len(BY_DURATION) :]) is None:
                return "the duration is not one of ISO 8601, such as PT1H"
            return None
        return f"must be {self}"

    def __str__(self) -> str:
        return "earliest, latest, or by_duration:PnDTnHnMn.nS"


# fmt: off
GROUP_CONFIG = ConfigDef("group", (
    ConfigKey(SESSION_TIMEOUT, ConfigType.INT, 45_000,
              "A member of this consumer group is gone when it was silent for so long.",
              Range(1), synonyms=("group.consumer.session.timeout.ms",)),
    ConfigKey(HEARTBEAT_INTERVAL, ConfigType.INT, 5_000,
              "Time between two heartbeats of a member of this consumer group.",
              Range(1), synonyms=("group.consumer.heartbeat.interval.ms",)),
    ConfigKey(SHARE_SESSION_TIMEOUT, ConfigType.INT, 45_000,
              "A member of this share group is gone when it was silent for so long.",
              Range(1), synonyms=("group.share.session.timeout.ms",)),
    ConfigKey(SHARE_HEARTBEAT_INTERVAL, ConfigType.INT, 5_000,
              "Time between two heartbeats of a member of this share group.",
              Range(1), synonyms=("group.share.heartbeat.interval.ms",)),
    ConfigKey(SHARE_RECORD_LOCK_DURATION, ConfigType.INT, 30_000,
              "How long a record is a consumer's own before it is given to another.",
              Range(1000), synonyms=("group.share.record.lock.duration.ms",)),
    ConfigKey(SHARE_DELIVERY_COUNT_LIMIT, ConfigType.INT, 5,
              "How often a record is delivered to this share group before it is given up.",
              Range(2), synonyms=("group.share.delivery.count.limit",)),
    ConfigKey(SHARE_PARTITION_MAX_RECORD_LOCKS, ConfigType.INT, 2000,
              "Records of one partition that may be acquired in this share group at a time.",
              Range(100), synonyms=("group.share.partition.max.record.locks",)),
    ConfigKey(SHARE_AUTO_OFFSET_RESET, ConfigType.STRING, "latest",
              "Where a share group begins in a partition that it has not read.",
              ResetStrategy()),
    ConfigKey(SHARE_ISOLATION_LEVEL, ConfigType.STRING, "read_uncommitted",
              "Whether a share group is given records of transactions that were aborted.",
              OneOf(("read_committed", "read_uncommitted"))),
    ConfigKey(SHARE_RENEW_ACKNOWLEDGE, ConfigType.BOOLEAN, True,
              "Whether members of this share group may prolong an acquisition."),
    ConfigKey(ASSIGNMENT_INTERVAL, ConfigType.INT, 0,
              "Shortest time between two target assignments of this consumer group.",
              Range(0), synonyms=("group.consumer.assignment.interval.ms",)),
))
# fmt: on

_BOUNDS = {
    SESSION_TIMEOUT: (
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    HEARTBEAT_INTERVAL: (
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    SHARE_SESSION_TIMEOUT: (
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ),
    SHARE_HEARTBEAT_INTERVAL: (
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ),
    SHARE_RECORD_LOCK_DURATION: (
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    SHARE_DELIVERY_COUNT_LIMIT: (
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    SHARE_PARTITION_MAX_RECORD_LOCKS: (
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    ASSIGNMENT_INTERVAL: (
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
}


def validate_group_configs(overrides: Mapping[str, Any], broker: Mapping[str, Any]) -> None:
    """Raises `ConfigError`: unknown keys, wrong values, and values that don't fit together."""
    values = GROUP_CONFIG.parse_given(overrides)
    for name, (low, high) in _BOUNDS.items():
        if name not in values:
            continue
        if values[name] < broker[low]:
            raise ConfigError(name, f"{name} must be greater than or equal to {low}")
        if values[name] > broker[high]:
            raise ConfigError(name, f"{name} must be less than or equal to {high}")
    for session, heartbeat in (
        (SESSION_TIMEOUT, HEARTBEAT_INTERVAL),
        (SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL),
    ):
        session_ms, heartbeat_ms = (
            values.get(name, broker[f"group.{name}"]) for name in (session, heartbeat)
        )
        if session_ms <= heartbeat_ms:
            raise ConfigError(session, f"{session} must be greater than {heartbeat}")
