"""The place of one answer in a connection's order."""

from headrace.base.network import Part


class Slot:
    """`parts` is None until the answer is ready."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Part] | None = None
