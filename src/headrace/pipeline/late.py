"""Late rows: which they are, and what becomes of them.

Owns: the rule. Must not know: Spark, files, who asks.

A row is late if its event time lies more than `after_us` before its record's time, which is in the
log. Nothing else enters: no clock, no watermark, no order of tasks. So a replay, also by another
driver, decides the same for every record. A row without an event time is never late.
"""

from dataclasses import dataclass

import numpy as np

KEEP, DROP, DEAD_LETTER = "keep", "drop", "dead-letter"
FATES = (KEEP, DROP, DEAD_LETTER)

_INT64_MIN = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class LateRule:
    """Picklable: it travels to Spark's workers."""

    after_us: int
    fate: str = KEEP

    @property
    def is_kept(self) -> bool:
        return self.fate == KEEP

    def late(self, event_us: np.ndarray, is_known: np.ndarray, record_us: np.ndarray) -> np.ndarray:
        """True for each late row; `is_known` is false where there is no event time."""
        # A record's time may be any number: the subtraction must not wrap around.
        limit_us = np.maximum(record_us, _INT64_MIN + self.after_us) - self.after_us
        return np.asarray(is_known & (event_us < limit_us))


def rule_of(after_s: float | None, fate: str) -> LateRule | None:
    return None if after_s is None else LateRule(round(after_s * 1_000_000), fate)
