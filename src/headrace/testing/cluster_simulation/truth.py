"""What is committed, seen from outside all nodes, and the rules that hold at every event.

Owns: for every partition, those of coordinators too, the batches that were ever committed, and what
each node showed last.
Must not know: how a node works inside, beyond its logs, roles and metadata.

| rule | what holds |
|------|------------|
| L2, L13 | a committed offset has one content, in every log that claims it is committed |
| L10  | what a consumer reads is committed |
| L11  | the log of a running in-sync or eligible replica has all that is committed |
| L12  | who leads counts at least the in-sync replicas that the controller knows |
| L14  | acks=all is answered when enough replicas have the batch |
| L15  | what is committed is whole on the disk of somebody who may lead, also if nobody leads |
| L16  | eligible is who is not in sync, where too few are, and nobody who lost records; no fenced
|      | broker is in sync beside another |
| epoch | a leader epoch has one leader, who knows and keeps where it began (`begun_epochs`) |
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.cluster.image import ClusterImage
from headrace.testing.cluster_simulation.begun_epochs import BegunEpochs
from headrace.testing.quorum.violation import Violation
from headrace.wire.kafka.messages.produce import ProduceRequest
from headrace.wire.kafka.record_batch import BatchHeader
from headrace.wire.kafka.records import read_batches

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.testing.cluster_simulation.node import SimulatedNode
    from headrace.testing.cluster_simulation.world import World

Key = tuple[bytes, int]
READ_BYTES_MAX = 1 << 20


class Committed:
    """One partition's committed batches: by their first offset the checksum and the next offset."""

    __slots__ = ("batches", "end")

    def __init__(self) -> None:
        self.end = 0
        self.batches: dict[int, tuple[int, int]] = {}


class Truth:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.committed: dict[Key, Committed] = {}
        self._leaders: dict[tuple[bytes, int, int], int] = {}
        self._shown: dict[tuple[int, Key], tuple[bool, int, int]] = {}
        """Per node and partition: whether it leads, its leader epoch, its high watermark."""
        self._ends: dict[tuple[int, Key], int] = {}
        """Where the log of each node was last seen to end."""
        self.election_count = 0
        self.begun_epochs = BegunEpochs()

    def of(self, key: Key) -> Committed:
        found = self.committed.get(key)
        if found is None:
            found = self.committed[key] = Committed()
        return found

    # -- nodes ---------------------------------------------------------------------------------

    def on_down(self, node_id: int) -> None:
        for where in [where for where in self._shown if where[0] == node_id]:
            del self._shown[where]
        self.begun_epochs.on_down(node_id)

    def on_loss(self) -> None:
        """A disk lost something: L15, dead or alive, for all that is committed."""
        for key, truth in self.committed.items():
            described = self._described(key)
            if described is None or not truth.end:
                continue
            ends = {
                member: self._ends.get((member, key), 0)
                for member in self._may_lead(key, described)
                if not self._world.nodes[member].is_lossy
            }
            if not ends or max(ends.values()) < truth.end:
                raise Violation("L15", f"{truth.end} is committed, kept is {ends}: {described}")

    def on_node(self, node: "SimulatedNode") -> None:
        broker = node.assembled.broker
        assert broker is not None
        for partition in broker.partitions.all():
            if not partition.error:
                self._look(node, partition)

    def _look(self, node: "SimulatedNode", partition: "Partition") -> None:
        key = (partition.topic_id, partition.index)
        where = (node.node_id, key)
        high_watermark = partition.high_watermark
        now = (partition.is_leader, partition.leader_epoch, high_watermark)
        before = self._shown.get(where)
        if partition.is_leader and partition.in_sync is None and not _is_alone(node, key):
            return  # it has no role yet
        truth = self.of(key)
        self._ends[where] = partition.log.log_end_offset
        if partition.log.log_end_offset < truth.end:
            self._check_candidate(node, key, partition.log.log_end_offset, truth)
        if now == before:
            return
        self._shown[where] = now
        if partition.is_leader:
            if before is None or before[:2] != now[:2]:
                self._on_leading(node, partition, key, truth)
            self._on_leader_watermark(node, partition, key, truth)
            return
        start = before[2] if before is not None else 0
        if high_watermark > truth.end:
            raise Violation(
                "L10", f"{_at(node, partition)} follows to {high_watermark} of {truth.end}"
            )
        self._compare(node, partition, truth, min(start, high_watermark), high_watermark)

    def _on_leading(
        self, node: "SimulatedNode", partition: "Partition", key: Key, truth: Committed
    ) -> None:
        epoch = partition.leader_epoch
        leader = self._leaders.setdefault((*key, epoch), node.node_id)
        if leader != node.node_id:
            raise Violation("epoch", f"{_at(node, partition)} leads {epoch}, as does {leader}")
        self.begun_epochs.on_leading(node, partition, key)
        self.election_count += 1
        if node.is_lossy or self._is_old(key, epoch):
            return  # it has been told of a past, and serves nobody before it is registered
        if partition.log.log_end_offset < truth.end:
            raise Violation(
                "L11",
                f"{_at(node, partition)} leads epoch {epoch} with {partition.log.log_end_offset} "
                f"of {truth.end}",
            )
        self._compare(node, partition, truth, 0, truth.end)

    def _is_old(self, key: Key, epoch: int) -> bool:
        described = self._described(key)
        return described is None or described.leader_epoch != epoch

    def _described(self, key: Key) -> Any:
        image = self._world.image
        topic = None if image is None else image.topics_by_id.get(key[0])
        return None if topic is None else topic.partitions[key[1]]

    def _on_leader_watermark(
        self, node: "SimulatedNode", partition: "Partition", key: Key, truth: Committed
    ) -> None:
        high_watermark = partition.high_watermark
        if high_watermark <= truth.end:
            return
        for header in _batches(partition, truth.end, high_watermark):
            if header.base_offset != truth.end:
                raise Violation("L13", f"{_at(node, partition)} has a gap at {truth.end}")
            truth.batches[header.base_offset] = (header.crc, header.next_offset)
            truth.end = header.next_offset
        if truth.end != high_watermark:
            raise Violation("L13", f"{_at(node, partition)} lacks {truth.end} to {high_watermark}")
        described = self._described(key)
        if partition.in_sync is not None and len(partition.in_sync.isr) < partition.isr_count_min:
            raise Violation("L14", f"{_at(node, partition)} commits with {partition.in_sync.isr}")
        for member in () if described is None else described.isr:
            other = self._world.nodes[member]
            if other.is_up and other.node_id != node.node_id:
                held = other.assembled.broker
                log = None if held is None else held.partitions.find(*key)
                if log is not None and not log.error:
                    self._check_candidate(other, key, log.log.log_end_offset, truth)

    def _compare(
        self,
        node: "SimulatedNode",
        partition: "Partition",
        truth: Committed,
        start: int,
        end: int,
    ) -> None:
        if start >= end:
            return
        for header in _batches(partition, start, end):
            known = truth.batches.get(header.base_offset)
            if known is None or known[0] != header.crc:
                raise Violation(
                    "L13",
                    f"{_at(node, partition)} has at {header.base_offset} what is not committed",
                )

    # -- metadata ------------------------------------------------------------------------------

    def _check_candidate(
        self, node: "SimulatedNode", key: Key, end_offset: int, truth: Committed
    ) -> None:
        """L11, for a running replica that may be elected."""
        described = self._described(key)
        if described is None or node.is_lossy or end_offset >= truth.end:
            return
        if node.node_id in self._may_lead(key, described):
            raise Violation(
                "L11",
                f"node {node.node_id} may lead with {end_offset} of {truth.end}: {described}",
            )

    def _may_lead(self, key: Key, described: Any) -> tuple[int, ...]:
        """Who may be elected, by the newest word: the leader may know of a decision, and have
        committed by it, in the very event in which our own image gets it."""
        leading = self._world.nodes.get(described.leader)
        broker = None if leading is None or not leading.is_up else leading.assembled.broker
        partition = None if broker is None else broker.partitions.find(*key)
        in_sync = None if partition is None else partition.in_sync
        if (
            partition is not None
            and in_sync is not None
            and partition.leader_epoch == described.leader_epoch
            and in_sync.partition_epoch > described.partition_epoch
        ):
            return in_sync.isr
        may_lead: tuple[int, ...] = described.isr + described.eligible_leader_replicas
        return may_lead

    def on_image(self, image: ClusterImage) -> None:
        for topic in image.topics_by_id.values():
            for described in topic.partitions:
                self._check_described(image, topic, described)
        for node in self._world.nodes.values():
            if node.returned_lossy(image):
                node.has_loss = False

    def _check_described(self, image: ClusterImage, topic: Any, described: Any) -> None:
        for node in self._world.nodes.values():
            may_lead = described.isr + described.eligible_leader_replicas
            if node.returned_lossy(image) and node.node_id in may_lead:
                raise Violation("L16", f"{topic.name}: {node.node_id} lost records: {described}")
        eligible = set(described.eligible_leader_replicas)
        if eligible & set(described.isr):
            raise Violation("L16", f"{topic.name}: in sync and eligible: {described}")
        minimum = int(
            image.topic_configs(topic.name).get(
                "min.insync.replicas", self._world.nodes[1].config["min.insync.replicas"]
            )
        )
        if eligible and len(described.isr) >= min(minimum, len(described.replicas)):
            raise Violation("L16", f"{topic.name}: eligible beside enough: {described}")
        for member in described.isr:
            broker = image.brokers.get(member)
            if len(described.isr) > 1 and (broker is None or broker.fenced):
                raise Violation("L16", f"{topic.name}: {member} is fenced and in sync: {described}")
        key = (topic.topic_id, described.index)
        leading = self._world.nodes.get(described.leader)
        if leading is None or not leading.is_serving or leading.assembled.broker is None:
            return
        partition = leading.assembled.broker.partitions.find(*key)
        if (
            partition is not None
            and partition.in_sync is not None
            and partition.leader_epoch == described.leader_epoch
            and not partition.in_sync.maximal_isr >= set(described.isr)
        ):
            raise Violation(
                "L12", f"{topic.name}: counts {partition.in_sync.maximal_isr}: {described}"
            )

    # -- answers -------------------------------------------------------------------------------

    def on_answer(self, node_id: int, request: Any, response: Any) -> None:
        """A broker is about to answer: what it says must be true now."""
        if isinstance(request, ProduceRequest) and request.acks == -1:
            for topic, told in zip(request.topic_data, response.responses, strict=True):
                for row in told.partition_responses:
                    if not row.error_code and row.base_offset >= 0:
                        self._check_acked(node_id, topic.topic_id, row)

    def _check_acked(self, node_id: int, topic_id: bytes, row: Any) -> None:
        key = (bytes(topic_id), row.index)
        truth = self.of(key)
        self.on_node(self._world.nodes[node_id])
        if row.base_offset >= truth.end:
            raise Violation(
                "L14", f"node {node_id} acknowledges {row.base_offset}; committed is {truth.end}"
            )


def _batches(partition: "Partition", start: int, end: int) -> Iterator[BatchHeader]:
    log = partition.log
    offset = max(start, log.log_start_offset)
    while offset < end:
        region = log.read(offset, READ_BYTES_MAX, end).region
        if region is None:
            return
        for header, _ in read_batches(region.file.read(region.position, region.length)):
            if header.next_offset > offset:
                yield header
                offset = header.next_offset


def _is_alone(node: "SimulatedNode", key: Key) -> bool:
    """Whether a node is the only replica, as far as it knows."""
    broker = node.assembled.broker
    topic = None if broker is None else broker.image.topics_by_id.get(key[0])
    return topic is not None and topic.partitions[key[1]].replicas == (node.node_id,)


def _at(node: "SimulatedNode", partition: "Partition") -> str:
    return f"node {node.node_id} {partition.name}"
