"""The configs of a client metrics subscription: what clients push, how often, and which clients.

Owns: `CLIENT_METRICS_CONFIG`. Must not know: who stores it, who asks for it.
Spec: KIP-714; Kafka's ClientMetricsConfigs.
"""

import re
from typing import Any

from headrace.base.config import ConfigDef, ConfigKey, ConfigType, Range

SELECTORS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
INTERVAL_MS = 300_000


class Selectors:
    """`name=pattern` pairs over what is known of a client."""

    def refusal(self, value: Any) -> str | None:
        for pair in value:
            name, separator, pattern = pair.partition("=")
            if not separator or name.strip() not in SELECTORS:
                return f"'{pair}' is not name=pattern with a name of: {', '.join(SELECTORS)}"
            try:
                re.compile(pattern.strip())
            except re.error as error:
                return f"'{pattern}' is no regular expression: {error}"
        return None

    def __str__(self) -> str:
        return f"[name]=[pattern],... with names {', '.join(SELECTORS)}"


CLIENT_METRICS_CONFIG = ConfigDef(
    "client metrics",
    (
        ConfigKey(
            "metrics",
            ConfigType.LIST,
            (),
            "Prefixes of the names of metrics that clients push; * for all.",
        ),
        ConfigKey(
            "interval.ms",
            ConfigType.INT,
            INTERVAL_MS,
            "How often they push.",
            Range(100, 3_600_000),
        ),
        ConfigKey(
            "match",
            ConfigType.LIST,
            (),
            "Which clients: all of these patterns must fit. Empty: every client.",
            Selectors(),
        ),
    ),
)
