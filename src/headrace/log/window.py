"""The rest of a producer's five-batch window, from the log itself.

A snapshot keeps a producer's last batch alone. A producer that repeats an older one after a
restart would be told that it is out of order, would begin a new epoch and write the batch
again: twice in the log (Redpanda #3039). So when a sequence does not fit an entry that came
from a snapshot, the batches before its last one are looked up, once.

Owns: that look-up, bounded. Must not know: what is done about it.
"""

from headrace.log.producers import (
    WINDOW_BATCHES,
    ProducerEntry,
    SequencedBatch,
    add_to_sequence,
)
from headrace.log.segment import Segment

SEARCH_BYTES = 8 << 20
"""How far before its last batch a window is searched: five batches in flight are near."""


def complete_window(entry: ProducerEntry, segments: list[Segment]) -> bool:
    """Fill the window; True if any batch came."""
    entry.window_complete = True
    known = entry.batches[0] if entry.batches else None
    if known is None:
        return False
    found: list[SequencedBatch] = []
    room_bytes = SEARCH_BYTES
    for segment in reversed(segments):
        if segment.base_offset >= known.base_offset or segment.size == 0:
            continue
        end, _ = segment.locate(known.base_offset)
        start = segment.boundary_before(end - room_bytes)
        batches = []
        for position, header in segment.headers(start):
            if position >= end:
                break
            if header.producer_id != entry.producer_id or header.producer_epoch != entry.epoch:
                continue
            if header.is_control:
                continue
            first, delta = header.base_sequence, header.last_offset_delta
            batches.append(
                SequencedBatch(
                    first,
                    add_to_sequence(first, delta),
                    header.base_offset,
                    header.last_offset,
                    header.max_timestamp,
                )
            )
        found = batches + found
        room_bytes -= end - start
        if room_bytes <= 0 or len(found) >= WINDOW_BATCHES:
            break
    rest = WINDOW_BATCHES - len(entry.batches)
    entry.batches.extendleft(reversed(found[-rest:] if rest else []))
    return bool(found and rest)
