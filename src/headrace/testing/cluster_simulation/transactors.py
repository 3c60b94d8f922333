"""Transactional producers and committed readers of a simulated cluster, in either protocol.

Owns: what each transaction read, wrote and was asked to become, what it was told, and what readers
saw. Must not know: what is in the logs; `transaction_rules` judges at the end.

A producer asks again as real ones do, its coordinator where somebody says that it is. It reads what
a committed reader has seen, as a copier does, and in the newer protocol some of its transactions
commit an offset of a group; in the older one, one that comes late would be the next one's. Told
what can't be mended (fenced, not in that state), or at random, it comes back as another life of the
same transactional id, which aborts what the last one left open.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from headrace.testing.cluster_simulation.clients import (
    PRODUCE_TIMEOUT_MS,
    RETRY_MS,
    Client,
    Key,
    PartitionReader,
)
from headrace.testing.cluster_simulation.coordinators import (
    FATAL,
    KEY_TYPE_GROUP,
    KEY_TYPE_TRANSACTION,
    Coordinator,
    error_of,
)
from headrace.testing.quorum.violation import Violation
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from headrace.wire.kafka.messages.end_txn import EndTxnRequest
from headrace.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headrace.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.wire.kafka.records import build_batch, read_batches, read_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.testing.cluster_simulation.world import World

TIMEOUT_MS = 6_000
"""Of a transaction: some bad times are longer."""
DEATH_CHANCE = 0.04
COMMIT_CHANCE = 0.7
OFFSET_CHANCE = 0.5
_PRODUCE_OLD, _ADD_OLD, _END_OLD = 11, 3, 4
_OFFSETS = 5


class Fate(Enum):
    OPEN = auto()
    """It was never asked to commit: nothing of it may ever be seen."""
    ASKED = auto()
    """To commit, and nobody answered for certain: all of it or nothing."""
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(slots=True)
class Transaction:
    name: bytes
    values: dict[Key, list[bytes]] = field(default_factory=dict)
    fate: Fate = Fate.OPEN
    read: list[bytes] = field(default_factory=list)
    """What committed readers saw while it was open."""
    offset: int = -1
    """Committed with it, if it was taken; each is greater than those before."""


class Transactor(Client):
    def __init__(
        self,
        world: "World",
        number: int,
        inputs: "dict[Key, CommittedReader]",
        topic: str,
        gap_ms: int,
        *,
        bumps: bool,
    ) -> None:
        """It reads what the `inputs` saw, and writes to the same partitions. `bumps`: the newer
        protocol, whose epoch changes with every transaction."""
        super().__init__(world, number)
        self._keys = list(inputs)
        self._inputs = inputs
        self._positions = dict.fromkeys(inputs, 0)
        self._topic = topic
        self._gap_ms = gap_ms
        self._bumps = bumps
        self._transactional_id = f"id-{number}"
        self.group = f"copier-{number}"
        self._coordinator = Coordinator(self, self._transactional_id, KEY_TYPE_TRANSACTION)
        self._group_coordinator = Coordinator(self, self.group, KEY_TYPE_GROUP)
        self._is_offset_due = False
        self._producer_id = self._epoch = -1
        self._sequences: dict[Key, int] = {}
        self._added: set[Key] = set()
        self.transactions: list[Transaction] = []
        self.is_idle = True
        """Nothing is under way."""

    def start(self) -> None:
        self.is_idle = False
        self._initialize()

    def _later(self, action: "Callable[..., None]", *arguments: Any) -> None:
        delay_ms = RETRY_MS // 2 + self.world.dice.randrange(RETRY_MS)
        self.world.schedule(delay_ms, action, *arguments)

    # -- its life ------------------------------------------------------------------------------

    def _initialize(self) -> None:
        """A new life: what the last one left open is aborted before this is answered."""

        def on_response(response: Any) -> None:
            if response.error_code:
                self._later(self._initialize)
                return
            self._take(response.producer_id, response.producer_epoch)
            self._begin()

        request = InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        self._coordinator.ask(request, on_response)

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._sequences = dict.fromkeys(self._keys, 0)
        self._producer_id, self._epoch = producer_id, epoch

    def _begin(self) -> None:
        if self.is_stopped:
            self.is_idle = True
            return
        dice = self.world.dice
        name = b"%d.%d" % (self.client_id, len(self.transactions))
        transaction = Transaction(name)
        for key in dice.sample(self._keys, dice.randint(1, len(self._keys))):
            count = dice.randint(1, 3)
            transaction.values[key] = [b"%s/%d:%d" % (name, key[1], n) for n in range(count)]
        self.transactions.append(transaction)
        self._added = set()
        self._is_offset_due = self._bumps and dice.random() < OFFSET_CHANCE
        self._write_next(transaction)

    def _write_next(self, transaction: Transaction) -> None:
        dice = self.world.dice
        if dice.random() < DEATH_CHANCE:
            self._later(self._initialize)
            return
        self._read(transaction)
        left = [key for key in transaction.values if key not in self._added]
        if not left and self._is_offset_due:
            self._commit_offset(transaction)
        elif not left:
            self._end(transaction, is_commit=dice.random() < COMMIT_CHANCE)
        elif self._bumps:
            self._send(transaction, left[0], self._batch(transaction, left[0]))
        else:
            self._add(transaction, left[0])

    # -- writing -------------------------------------------------------------------------------

    def _add(self, transaction: Transaction, key: Key) -> None:
        """The older protocol names a partition before it is written."""

        def on_response(response: Any) -> None:
            if error_of(response):
                self._later(self._initialize)
            else:
                self._send(transaction, key, self._batch(transaction, key))

        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=[key[1]])],
        )
        self._coordinator.ask(request, on_response, _ADD_OLD)

    def _batch(self, transaction: Transaction, key: Key) -> bytes:
        now_ms = self.world.clock.now_ms()
        return bytes(
            build_batch(
                [(None, value, (), now_ms) for value in transaction.values[key]],
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=self._sequences[key],
                is_transactional=True,
            )
        )

    def _send(self, transaction: Transaction, key: Key, batch: bytes) -> None:
        leader, _ = self.leader_of(key)
        if leader < 0:
            self._later(self._send, transaction, key, batch)
            return
        row = PartitionProduceData(index=key[1], records=batch)
        topic = TopicProduceData(name=self._topic, topic_id=key[0], partition_data=[row])
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=-1,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[topic],
        )

        def on_response(response: Any) -> None:
            row = None if response is None else response.responses[0].partition_responses[0]
            error = ErrorCode.NONE if row is None else ErrorCode.of(row.error_code)
            if error in FATAL:
                self._later(self._initialize)
            elif row is None or (error and error is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._later(self._send, transaction, key, batch)
            else:
                self._sequences[key] += len(transaction.values[key])
                self._added.add(key)
                gap_ms = 1 + self.world.dice.randrange(self._gap_ms)
                self.world.schedule(gap_ms, self._write_next, transaction)

        self.ask(leader, request, on_response, None if self._bumps else _PRODUCE_OLD)

    def _read(self, transaction: Transaction) -> None:
        """As a copier polls between its writes."""
        for key, reader in self._inputs.items():
            new = reader.seen[self._positions[key] :]
            self._positions[key] += len(new)
            transaction.read += new
            own = [value for value in new if value in transaction.values.get(key, ())]
            if own:
                raise Violation("L5", f"{transaction.name!r} reads its own {own}")

    def _commit_offset(self, transaction: Transaction) -> None:
        """The group joins the transaction by it."""
        transaction.offset = len(self.transactions)

        def on_response(response: Any) -> None:
            if error_of(response):
                self._later(self._initialize)
                return
            self._is_offset_due = False
            self._write_next(transaction)

        row = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=transaction.offset
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=self.group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self._topic, partitions=[row])],
        )
        self._group_coordinator.ask(request, on_response, _OFFSETS)

    # -- its end -------------------------------------------------------------------------------

    def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        if is_commit:
            transaction.fate = Fate.ASKED

        def on_response(response: Any) -> None:
            if response.error_code:
                self._later(self._initialize)
                return
            transaction.fate = Fate.COMMITTED if is_commit else Fate.ABORTED
            if self._bumps:
                self._take(response.producer_id, response.producer_epoch)
            self.world.schedule(1 + self.world.dice.randrange(self._gap_ms), self._begin)

        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=is_commit,
        )
        self._coordinator.ask(request, on_response, None if self._bumps else _END_OLD)


class CommittedReader(PartitionReader):
    """Reads at read_committed, and keeps what it saw."""

    def __init__(self, world: "World", number: int, key: Key) -> None:
        super().__init__(world, number, key, committed=True)
        self._aborting: set[int] = set()
        """Producers whose next records are of an aborted transaction."""
        self.seen: list[bytes] = []

    def _take(self, row: Any) -> None:
        aborted = sorted(
            (each.first_offset, each.producer_id) for each in row.aborted_transactions or ()
        )
        for header, batch in read_batches(row.records or b""):
            if header.next_offset > row.last_stable_offset:
                raise Violation(
                    "L5",
                    f"{header.base_offset} is read, stable is {row.last_stable_offset}",
                )
            while aborted and aborted[0][0] <= header.last_offset:
                self._aborting.add(aborted.pop(0)[1])
            is_new = header.base_offset >= self.position
            if header.is_control:
                self._aborting.discard(header.producer_id)
            elif is_new and not (header.is_transactional and header.producer_id in self._aborting):
                self.seen += [record.value or b"" for record in read_records(batch)]
            self.position = max(self.position, header.next_offset)
