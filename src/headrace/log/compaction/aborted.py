"""Which batches of a cleaned range belong to aborted transactions, and which markers must stay.

Owns: the walk over a range of transactions in the order of their batches.
Must not know: keys, files. Spec: Kafka's CleanedTransactionMetadata; KAFKA-13727, KAFKA-14055.

Invariants: a marker may go only when no batch of its transaction was met before it; an aborted
transaction of which a batch is left stays in the transaction index.
"""

from collections import deque
from collections.abc import Iterable

from headrace.log.txn_index import AbortedTransaction
from headrace.wire.kafka.record_batch import BatchHeader


class CleanedTransactions:
    """Fed every transactional batch of a range, oldest first."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen_aborted: set[int] = set()
        self._committed: set[int] = set()
        """Producers of whose open transaction a batch was met."""
        self.kept: list[AbortedTransaction] = []
        """Those whose marker was met with a batch of theirs before it, for the new index."""

    def on_batch(self, header: BatchHeader) -> bool:
        """True if the batch's transaction was aborted."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._seen_aborted.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def on_marker(self, header: BatchHeader, is_abort: bool) -> bool:
        """True if nothing of the marker's transaction was met."""
        self._advance(header.last_offset)
        producer_id = header.producer_id
        if not is_abort:
            was_seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_seen
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._seen_aborted:
            return True
        self._seen_aborted.discard(producer_id)
        self.kept.append(aborted)
        return False

    def _advance(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0].first_offset <= offset:
            each = self._upcoming.popleft()
            self._aborted[each.producer_id] = each
            self._seen_aborted.discard(each.producer_id)
