"""The configs of a single group: what may be set for it beside what the broker says for all.

Owns: `GROUP_CONFIG` (the definitions) and the rules that bind them to the broker's own keys.
Must not know: who stores overrides (`cluster.configs`), what groups do with them.
Spec: Kafka 4.3's GroupConfig (KIP-1043).
"""

from collections.abc import Mapping
from typing import Any

from headrace.base.config import ConfigDef, ConfigError, ConfigKey, ConfigType, Range

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"

# fmt: off
GROUP_CONFIG = ConfigDef("group", (
    ConfigKey(SESSION_TIMEOUT, ConfigType.INT, 45_000,
              "A member of this consumer group is gone when it was silent for so long.",
              Range(1), synonyms=("group.consumer.session.timeout.ms",)),
    ConfigKey(HEARTBEAT_INTERVAL, ConfigType.INT, 5_000,
              "Time between two heartbeats of a member of this consumer group.",
              Range(1), synonyms=("group.consumer.heartbeat.interval.ms",)),
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
    session_ms, heartbeat_ms = (
        values.get(name, broker[f"group.{name}"]) for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL)
    )
    if session_ms <= heartbeat_ms:
        raise ConfigError(
            SESSION_TIMEOUT, f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}"
        )
