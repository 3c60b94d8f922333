"""State batches of a share-partition made one list: no overlaps, nothing before the start offset.

Owns: which of two batches counts where both speak. Pure. Must not know: records, requests.
Spec: Kafka's PersisterStateBatchCombiner.

Where batches overlap, that with the larger delivery count is the later word; with equal counts the
one whose state is further on (available 0, acknowledged 2, archived 4). Neighbours that say the
same are one batch.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from headrace.broker.share.persister import StateBatch


def combine(
    kept: Iterable[StateBatch], told: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    pieces = [
        (max(batch.first_offset, start_offset), batch)
        for batches in (kept, told)
        for batch in batches
        if batch.first_offset <= batch.last_offset and batch.last_offset >= start_offset
    ]
    pieces.sort(key=lambda piece: piece[0])
    return _swept(pieces)


def _swept(pieces: list[tuple[int, StateBatch]]) -> tuple[StateBatch, ...]:
    """From the left to the right: at each point the batch that counts, until another does."""
    swept: list[StateBatch] = []
    open_: list[tuple[int, int, int]] = []
    """Those that began: count and state negated, so that the winner is first, and the end."""
    index, offset = 0, 0
    while index < len(pieces) or open_:
        if not open_:
            offset = max(offset, pieces[index][0])
        while index < len(pieces) and pieces[index][0] <= offset:
            batch = pieces[index][1]
            heappush(open_, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            index += 1
        while open_ and open_[0][2] < offset:
            heappop(open_)
        if not open_:
            continue
        count, state, last = open_[0]
        if index < len(pieces):
            last = min(last, pieces[index][0] - 1)
        _extend(swept, StateBatch(offset, last, -state, -count))
        offset = last + 1
    return tuple(swept)


def _extend(swept: list[StateBatch], piece: StateBatch) -> None:
    if swept:
        before = swept[-1]
        if (
            before.last_offset + 1 == piece.first_offset
            and before.delivery_state == piece.delivery_state
            and before.delivery_count == piece.delivery_count
        ):
            swept[-1] = StateBatch(
                before.first_offset, piece.last_offset, piece.delivery_state, piece.delivery_count
            )
            return
    swept.append(piece)
