def start() -> None:
    """Start the thread, once.

    Where it can't have the lowest priority it ends, and `keep` does nothing.
    """

def keep(for_ns: int, /) -> None:
    """Keep the core that this is called on awake for so many ns from now; no more than that."""

def spent_s() -> float:
    """CPU time of the thread so far, in seconds."""
