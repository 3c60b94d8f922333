"""The configuration that the transaction coordinator obeys, under Kafka's own key names.

Owns: which keys, and their units. Values come from the broker's configuration.
"""

from dataclasses import dataclass
from typing import Any, Protocol


class Config(Protocol):
    def __getitem__(self, key: str, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    timeout_ms_max: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    abort_check_interval_ms: int = 10_000
    expiration_check_interval_ms: int = 3_600_000
    verifies_partitions: bool = True

    @classmethod
    def from_config(cls, config: Config) -> "TransactionSettings":
        return cls(
            timeout_ms_max=int(config["transaction.max.timeout.ms"]),
            transactional_id_expiration_ms=int(config["transactional.id.expiration.ms"]),
            abort_check_interval_ms=int(
                config["transaction.abort.timed.out.transaction.cleanup.interval.ms"]
            ),
            expiration_check_interval_ms=int(
                config["transaction.remove.expired.transaction.cleanup.interval.ms"]
            ),
            verifies_partitions=bool(config["transaction.partition.verification.enable"]),
        )
