"""Changes of in-sync replicas on their way to the controller.

Owns: one AlterPartition under way, those that wait for it, and retries. Must not know: why a
replica is in or out of sync (`in_sync`), where the controller is.
Spec: KIP-497; AlterPartition v3 with broker epochs (KIP-903).

An answer and the metadata record of the same change race; both carry the partition epoch, and the
older is old news. What the controller refuses is dropped: the next fetch or the next look at the
lag proposes again, from what is true then. Only where the controller knows more than we do, the
proposal stays as it is until its metadata comes.
"""

from collections.abc import Callable
from typing import Any, Protocol

from headrace.base.clock import Timers
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.broker.context import ANONYMOUS
from headrace.broker.replication.in_sync import Proposal
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)

Key = tuple[bytes, int]
_VERSION = 3
_RETRY_MS = 50


_OUT_OF_DATE = frozenset(
    {
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller is ahead of us, perhaps because it granted this very proposal and the answer was
lost: who was proposed counts until the metadata says what is decided."""


class ProposingPartition(Protocol):
    """A partition that we lead."""

    @property
    def name(self) -> str: ...

    def on_isr_decided(self, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int) -> None:
        """The controller's word, if it is news."""
        ...

    def on_isr_refused(self, proposal: Proposal) -> None: ...


class AskController(Protocol):
    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]: ...


class IsrProposals:
    def __init__(
        self,
        me: int,
        broker_epoch: Callable[[], int],
        controller: AskController,
        timers: Timers,
        events: EventLog,
    ) -> None:
        self._me = me
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._timers = timers
        self._events = events
        self._waiting: dict[Key, tuple[ProposingPartition, Proposal]] = {}
        self._is_asking = False
        self._is_closed = False

    def close(self) -> None:
        """Nothing is asked any more, nor asked again."""
        self._is_closed = True
        self._waiting = {}

    def propose(self, key: Key, partition: ProposingPartition, proposal: Proposal) -> None:
        if self._is_closed:
            return
        self._waiting[key] = (partition, proposal)
        # All that one turn of the loop finds goes in one request.
        self._timers.call_soon(self._ask)

    def _ask(self) -> None:
        if self._is_asking or not self._waiting:
            return
        asked, self._waiting = self._waiting, {}
        self._is_asking = True
        request = AlterPartitionRequest(
            broker_id=self._me, broker_epoch=self._broker_epoch(), topics=_topics(asked)
        )
        promise = self._controller.handle(request, _VERSION, ANONYMOUS)
        promise.then(lambda settled: self._on_settled(settled, asked))

    def _on_settled(
        self, settled: Promise[Any], asked: dict[Key, tuple[ProposingPartition, Proposal]]
    ) -> None:
        self._is_asking = False
        if self._is_closed:
            return
        response = None if settled.error is not None else settled.value()
        if not isinstance(response, AlterPartitionResponse) or response.error_code:
            # The controller moved, or does not know this life of ours yet: ask once more.
            for key, one in asked.items():
                self._waiting.setdefault(key, one)
            self._timers.call_later(_RETRY_MS, self._ask)
            return
        for topic in response.topics:
            for row in topic.partitions:
                known = asked.pop((bytes(topic.topic_id), row.partition_index), None)
                if known is not None:
                    self._on_row(*known, row)
        for partition, proposal in asked.values():
            partition.on_isr_refused(proposal)
        self._ask()

    def _on_row(self, partition: ProposingPartition, proposal: Proposal, row: Any) -> None:
        if row.error_code:
            self._events.info(
                "isr_change_refused",
                partition=partition.name,
                isr=list(proposal.isr),
                error=ErrorCode.of(row.error_code).name,
            )
            if row.error_code not in _OUT_OF_DATE:
                partition.on_isr_refused(proposal)
            return
        partition.on_isr_decided(tuple(row.isr), row.leader_epoch, row.partition_epoch)


def _topics(asked: dict[Key, tuple[ProposingPartition, Proposal]]) -> list[TopicData]:
    topics: dict[bytes, TopicData] = {}
    for (topic_id, index), (_partition, proposal) in asked.items():
        topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id))
        topic.partitions.append(
            PartitionData(
                partition_index=index,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                new_isr_with_epochs=[
                    BrokerState(broker_id=broker_id, broker_epoch=epoch)
                    for broker_id, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
                ],
            )
        )
    return list(topics.values())
