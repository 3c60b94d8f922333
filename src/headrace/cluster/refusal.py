"""A decision's no: the protocol's error code and a sentence. A value, never an exception."""

from dataclasses import dataclass

from headrace.wire.kafka.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Refusal:
    error: ErrorCode
    message: str
