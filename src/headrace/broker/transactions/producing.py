"""Produce requests with a transactional id: batches wait until the coordinator knows of them.

Owns: which batches of a request must be verified first, and staging them afterwards.
Must not know: the coordinator (`verification.Verifier`), connections.
Spec: KIP-890: parts 1 (verify, old protocol) and 2 (add by writing, Produce 12 and later).

A batch whose transaction is open in its partition goes straight to the log, as one without a
transaction does. The first one of a transaction asks. Mostly the answer is there at once; where
it is not, the bytes are copied, because the connection's buffer is used again after this read.
"""

from typing import TYPE_CHECKING

from headrace.base.network import Part
from headrace.base.promise import Promise
from headrace.broker.api.k00_produce import (
    ACKS,
    PendingProduce,
    Row,
    TopicKey,
    refusal,
    stage_batch,
)
from headrace.broker.partition import Partition
from headrace.broker.transactions.verification import (
    PRODUCE_ADDS_SINCE,
    Verified,
    produce_error,
)
from headrace.log.outcomes import Staged
from headrace.log.producers import Verification
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot import ProduceFrame
from headrace.wire.kafka.record_batch import TRANSACTIONAL_BIT, BatchHeader

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_UNANSWERED: Row = (-1, 0, -1, -1, -1, None)


class _Held:
    """A batch that waits for its verification."""

    __slots__ = ("header", "partition", "question", "records")

    def __init__(self, partition: Partition, records: memoryview, header: BatchHeader) -> None:
        self.partition = partition
        self.records = records
        self.header = header
        self.question: Verification | None = None


class PendingTransactional(PendingProduce):
    """A produce request of a transactional producer."""

    __slots__ = ("_answered", "_broker", "_held", "_now_ms", "_places", "_transactional_id")

    def __init__(
        self, broker: "Broker", frame: ProduceFrame, version: int, correlation_id: int
    ) -> None:
        super().__init__(frame, version, correlation_id)
        assert frame.transactional_id is not None
        self._broker = broker
        self._transactional_id = frame.transactional_id
        self._now_ms = 0
        self._held: list[_Held] = []
        self._places: list[tuple[list[tuple[int, Partition | None, Staged | Row]], int]] = []
        self._answered: Promise[Verified] | None = None

    def stage(self, _: "Broker", frame: ProduceFrame, now_ms: int) -> None:
        self._now_ms = now_ms
        for topic, data in frame.topics:
            rows: list[tuple[int, Partition | None, Staged | Row]] = []
            self._topics.append((topic, rows))
            for index, records in data:
                held_count = len(self._held)
                partition, outcome = self._admit(topic, index, records)
                if len(self._held) > held_count:
                    self._places.append((rows, len(rows)))
                rows.append((index, partition, outcome))
        if self._held:
            self._ask()

    def _admit(
        self, topic: TopicKey, index: int, records: memoryview | None
    ) -> tuple[Partition | None, Staged | Row]:
        broker = self._broker
        if self.acks not in ACKS:
            return None, refusal(index, ErrorCode.INVALID_REQUIRED_ACKS)
        partition = broker.partitions.find(topic, index)
        if partition is None:
            return None, refusal(index, broker.partitions.missing(topic, index))
        return partition, stage_batch(
            broker, partition, records, self._version, self.acks, True, self._now_ms, self._take
        )

    def _take(self, partition: Partition, records: memoryview, header: BatchHeader) -> Staged | Row:
        """A checked batch: to the log, or into the queue of those that are verified first."""
        is_free = not header.attributes & TRANSACTIONAL_BIT or partition.log.producers.has_ongoing(
            header.producer_id, header.producer_epoch
        )
        if is_free:
            return self._to_log(partition, records, header)
        self._held.append(_Held(partition, records, header))
        return _UNANSWERED

    def _to_log(self, partition: Partition, records: memoryview, header: BatchHeader) -> Staged:
        if not partition.staged_bytes:
            self._broker.staged.append(partition)
        return partition.stage(records, header, self._now_ms)

    # -- verifying ---------------------------------------------------------------------

    def _ask(self) -> None:
        held = self._held
        header = held[0].header
        producer_id, producer_epoch = header.producer_id, header.producer_epoch
        for one in held:
            if (one.header.producer_id, one.header.producer_epoch) != (producer_id, producer_epoch):
                keys = [(other.partition.topic, other.partition.index) for other in held]
                self._settle(dict.fromkeys(keys, ErrorCode.INVALID_PRODUCER_ID_MAPPING))
                return
        for one in held:
            one.question = one.partition.log.producers.begin_verification(
                producer_id, producer_epoch, one.header.base_sequence, self._now_ms
            )
        asked = self._broker.verifier.ask(
            self._transactional_id,
            producer_id,
            producer_epoch,
            [(one.partition.topic, one.partition.index) for one in held],
            adds=self._version >= PRODUCE_ADDS_SINCE,
        )
        if asked.settled:
            self._settle(asked.value())
            return
        for one in held:
            one.records = memoryview(bytearray(one.records))
        self._answered = asked

    def _settle(self, verified: Verified) -> None:
        """Stage what the coordinator let through, refuse the rest."""
        for one, (rows, place) in zip(self._held, self._places, strict=True):
            index, partition, _ = rows[place]
            rows[place] = (index, partition, self._judge(one, verified))
        self._held = []

    def _judge(self, one: _Held, verified: Verified) -> Staged | Row:
        partition = one.partition
        error = verified[partition.topic, partition.index]
        if error is not ErrorCode.NONE:
            told = produce_error(error, self._version)
            return refusal(partition.index, told, f"The transaction did not admit it: {error.name}")
        if partition.refusal:
            return refusal(partition.index, partition.refusal)
        refused = partition.log.producers.check_verified(one.header, one.question)
        if refused:
            return refusal(partition.index, ErrorCode.of(refused))
        return self._to_log(partition, one.records, one.header)

    def finish_unanswered(self) -> None:
        """acks=0: what was verified elsewhere is still to be written."""
        if self._answered is not None:
            self.finish()

    # -- answering ---------------------------------------------------------------------

    def finish(self) -> Promise[list[Part]] | None:
        if self._answered is None:
            return super().finish()
        parts: Promise[list[Part]] = Promise()

        def on_answered(answered: Promise[Verified]) -> None:
            if answered.error is not None:
                parts.reject(answered.error)
                return
            self._settle(answered.value())
            self._broker.commit_staged()
            later = PendingProduce.finish(self)
            if later is None:
                assert self.parts is not None
                parts.resolve(self.parts)
            else:
                later.then(lambda told: parts.resolve(told.value()))

        self._answered.then(on_answered)
        return parts
