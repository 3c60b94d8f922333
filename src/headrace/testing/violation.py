"""A promise that a history shows broken."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    counter: str
    detail: str

    def __str__(self) -> str:
        return f"{self.counter}: {self.detail}"
