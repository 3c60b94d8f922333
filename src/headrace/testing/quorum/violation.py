"""What a checker raises."""


class Violation(AssertionError):
    """A rule was broken: `rule` is its name in the guide (R1 to R12, L for liveness)."""

    def __init__(self, rule: str, told: str) -> None:
        super().__init__(f"{rule}: {told}")
        self.rule = rule
