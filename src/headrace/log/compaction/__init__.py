"""Compaction: of each key the last record stays, and what hangs on offsets stays as it was.

    selection      which log, and which part of it, is worth cleaning now
    job            what a cleaning is told and what it tells: values that cross a process border
    cleaning       the work itself: dirty keys noted, segments rewritten as `.cleaned`
    rewriting      what of one batch stays
    aborted        which transactions were aborted, and which markers are still needed
    engine         keys and records, one by one in Python
    compiled       the same by numba, where it is installed
    swapping       the rewritten segments take the place of the old ones

Spec: Kafka's LogCleaner, Cleaner, LogCleanerManager; KIP-58, KIP-354, KIP-534.
"""
