"""Randomness as a seam: `random.Random` seeded by the node, or by the simulator's seed."""

from typing import Protocol


class Random(Protocol):
    """The part of `random.Random` that this project draws from."""

    def random(self) -> float: ...

    def randbytes(self, n: int, /) -> bytes: ...

    def randrange(self, start: int, stop: int | None = None, /) -> int: ...

    def getrandbits(self, k: int, /) -> int: ...
