"""Scenarios of share groups: commands, each with every answer that it sets free.

> flag group.share.max.size 2         a setting of the broker, before anything else
> topic t 2                           make a topic
> grow t 3                            … of more partitions
> set share.delivery.count.limit 2    a setting of the group
> new ann t,u                         a member with that subscription
> beat ann bob                        ShareGroupHeartbeat
> beat-at 7 ann                       … with an epoch of its own choice
> lose ann                            … whose answer does not arrive
> leave ann                           … that leaves
> write t:0 3 2                       batches of so many records
> fetch ann accept t:0 0-2 max=2      ShareFetch with acknowledgements, answered at once
> wait ann                            ShareFetch that waits half a minute
> acknowledge ann release t:0 3-3     ShareAcknowledge; epoch=-1 ends the session
> disconnect ann                      its connection is gone, and it makes another
> pass 30000                          let milliseconds pass
> restart                             the broker stops and starts
> show                                the group, as it is described
> starts                              where it begins to read, and its lag
"""

from tests.unit.broker.dialogue import Client, batch
from tests.unit.broker.share.conversation import GROUP, LEAVES, TYPES, Acks, Member, Where

from headrace.cluster.image import RESOURCE_GROUP
from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from headrace.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.kafka.messages.share_group_describe import ShareGroupDescribeRequest

AT_ONCE_MS, PATIENT_MS = 1, 30_000


class Scenario:
    def __init__(self) -> None:
        self._flags: dict[str, str] = {}
        self._made: SimulatedBroker | None = None
        self.members: dict[str, Member] = {}
        self.told: list[str] = []

    @property
    def broker(self) -> SimulatedBroker:
        if self._made is None:
            self._made = SimulatedBroker(**self._flags)
            asked = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
            Client(self._made).ask(asked, 6)
        return self._made

    def run(self, words: list[str]) -> list[str]:
        verb, *rest = words
        getattr(self, f"_{verb.replace('-', '_')}")(*rest)
        if self._made is not None:
            self._made.settle()
            self._listen()
        told, self.told = self.told, []
        return told

    def _listen(self) -> None:
        for member in self.members.values():
            self.told += member.told()

    # -- what there is -----------------------------------------------------------------------

    def _flag(self, key: str, value: str) -> None:
        assert self._made is None, "settings come first"
        self._flags[key.replace(".", "_")] = value

    def _topic(self, name: str, count: str) -> None:
        self.broker.create_topic(name, int(count))

    def _grow(self, name: str, count: str) -> None:
        wanted = CreatePartitionsTopic(name=name, count=int(count), assignments=None)
        answer = self.client.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=1000), 3)
        assert answer.results[0].error_code == 0, answer.results[0].error_message

    def _set(self, key: str, value: str) -> None:
        change = AlterableConfig(name=key, config_operation=0, value=value)
        resource = AlterConfigsResource(
            resource_type=RESOURCE_GROUP, resource_name=GROUP, configs=[change]
        )
        answer = self.client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        error = ErrorCode.of(answer.responses[0].error_code)
        if error:
            self.told.append(error.name)

    @property
    def client(self) -> Client:
        """Somebody who is no member."""
        return Client(self.broker)

    def _new(self, name: str, topics: str) -> None:
        self.members[name] = Member(self.broker, name, topics.split(","))

    def _write(self, where: str, *sizes: str) -> None:
        topic, _, index = where.partition(":")
        for size in map(int, sizes):
            values = [str(number) for number in range(size)]
            produced = self.client.produce(topic, int(index), batch(*values))
            assert produced.error_code == 0
            last = produced.base_offset + size - 1
            self.told.append(f"{where} {produced.base_offset}-{last}")

    # -- what members do ---------------------------------------------------------------------

    def _beat(self, *names: str) -> None:
        for name in names:
            self.members[name].beat()
            self._listen()

    def _beat_at(self, epoch: str, name: str) -> None:
        self.members[name].beat(int(epoch))

    def _lose(self, name: str) -> None:
        self.members[name].beat(is_lost=True)

    def _leave(self, *names: str) -> None:
        for name in names:
            self.members[name].beat(LEAVES)

    def _fetch(self, name: str, *words: str) -> None:
        member = self.members[name]
        acks, options = self._read(words)
        member.fetch(acks, max_wait_ms=AT_ONCE_MS, epoch=options.pop("epoch", None), **options)
        self.broker.settle()
        self._listen()
        if member.is_waiting:
            self.broker.advance(AT_ONCE_MS)

    def _wait(self, name: str) -> None:
        self.members[name].fetch({}, max_wait_ms=PATIENT_MS, epoch=None)
        self._listen()
        if self.members[name].is_waiting:
            self.told.append(f"{name}: waits")

    def _acknowledge(self, name: str, *words: str) -> None:
        acks, options = self._read(words)
        self.members[name].acknowledge(acks, options.get("epoch"))

    def _read(self, words: tuple[str, ...]) -> tuple[Acks, dict[str, int]]:
        acks: Acks = {}
        options: dict[str, int] = {}
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word in TYPES:
                where, offsets = self._where(rest.pop(0)), rest.pop(0)
                first, _, last = offsets.partition("-")
                acks.setdefault(where, []).append((int(first), int(last or first), TYPES[word]))
            else:
                key, _, value = word.partition("=")
                options[key] = int(value)
        return acks, options

    def _where(self, text: str) -> Where:
        topic, _, index = text.partition(":")
        return self.client.topic_id(topic), int(index)

    def _disconnect(self, name: str) -> None:
        self.members[name].transport.close("the member is gone")
        self.members[name].connect_anew()

    # -- time, and the broker's life ---------------------------------------------------------

    def _pass(self, delta_ms: str) -> None:
        self.broker.advance(int(delta_ms))

    def _restart(self) -> None:
        self.broker.stop()
        self.broker.start()
        for member in self.members.values():
            member.connect_anew()

    # -- what is seen from outside -----------------------------------------------------------

    def _show(self) -> None:
        (group,) = self.client.ask(ShareGroupDescribeRequest(group_ids=[GROUP]), 1).groups
        if group.error_code:
            self.told.append(ErrorCode.of(group.error_code).name)
            return
        epochs = f"epoch {group.group_epoch} assignment {group.assignment_epoch}"
        self.told.append(f"{group.group_state} {epochs}")
        for member in sorted(group.members, key=lambda each: each.member_id):
            parts = " ".join(
                f"{each.topic_name}:{','.join(map(str, sorted(each.partitions)))}"
                for each in member.assignment.topic_partitions
            )
            self.told.append(f"{member.member_id} {member.member_epoch} has {parts or '-'}")

    def _starts(self) -> None:
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)
        answer = self.client.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), 1)
        for topic in sorted(answer.groups[0].topics, key=lambda each: each.topic_name):
            for row in sorted(topic.partitions, key=lambda each: each.partition_index):
                where = f"{topic.topic_name}:{row.partition_index}"
                self.told.append(f"{where} from {row.start_offset} lag {row.lag}")
