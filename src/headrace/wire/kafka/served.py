"""One row of a server's table of APIs, and how its message classes are found.

Owns: the form of such a table. Must not know: which APIs anybody serves.
"""

import importlib
import re
from dataclasses import dataclass
from typing import Any

from headrace.wire.kafka.message import Message


@dataclass(frozen=True, slots=True)
class Api:
    """One row: `min_version` is what is advertised, `min_served` what is answered.

    They differ for Produce alone: librdkafka 2.0 compresses only if Produce 0 is advertised.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    min_served: int = -1

    @property
    def snake_name(self) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()

    @property
    def served(self) -> tuple[int, int]:
        return max(self.min_version, self.min_served), self.max_version

    def serves(self, version: int) -> bool:
        lowest, highest = self.served
        return lowest <= version <= highest

    def request_class(self) -> type[Any]:
        """Loaded at the first call: a server that never sees an API never pays for it."""
        return self._message("Request")

    def response_class(self) -> type[Any]:
        return self._message("Response")

    def _message(self, kind: str) -> type[Any]:
        module = importlib.import_module(f"headrace.wire.kafka.messages.{self.snake_name}")
        found: type[Any] = getattr(module, f"{self.name}{kind}")
        return found


def response_class_of(request_class: type[Message]) -> type[Message]:
    module = importlib.import_module(request_class.__module__)
    name = request_class.__name__.removesuffix("Request") + "Response"
    found: type[Message] = getattr(module, name)
    return found
