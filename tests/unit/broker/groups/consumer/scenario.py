"""Scenarios of consumer groups: commands, each with the exact answer behind it.

> topic t 4            make a topic, or more partitions of it
> new ann t,u          a consumer of the new protocol with that subscription
> new ann ~t.*         … with a pattern;  ann/i: with instance id i
> classic eve t        a consumer of the classic protocol
> beat ann             one heartbeat, or one turn of a classic client's loop
> lose ann             a heartbeat whose answer does not arrive
> leave ann [-2]       leave
> pass 45000           let milliseconds pass
> restart              the coordinator reads its log anew
> interval 2000        the group's consumer.assignment.interval.ms
> show                 the group
"""

from tests.unit.broker.groups.consumer.clients import ClassicConsumer, Consumer
from tests.unit.broker.groups.stage import Stage, image_of, topic_image

from headrace.base.group_config import ASSIGNMENT_INTERVAL
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import TopicIdPartition
from headrace.broker.groups.group import Group
from headrace.cluster.image import RESOURCE_GROUP
from headrace.wire.kafka.errors import ErrorCode


class Scenario:
    def __init__(self) -> None:
        self.stage = Stage(image=image_of())
        self.clients: dict[str, Consumer | ClassicConsumer] = {}

    def run(self, words: list[str]) -> list[str]:
        verb, *rest = words
        told: list[str] = getattr(self, f"_{verb}")(*rest)
        self.stage.settle()
        return told

    def _topic(self, name: str, count: str) -> list[str]:
        topic = topic_image(name, int(count))
        image = self.stage.image
        image.topics_by_name[name] = image.topics_by_id[topic.topic_id] = topic  # type: ignore[assignment]
        image.last_offset += 1
        self.stage.coordinator.on_topics_changed([name])
        return []

    def _new(self, name: str, topics: str, assignor: str | None = None) -> list[str]:
        member_id, _, instance_id = name.partition("/")
        is_pattern = topics.startswith("~")
        self.clients[member_id] = Consumer(
            self.stage,
            member_id,
            instance_id=instance_id or None,
            topics=frozenset() if is_pattern else frozenset(topics.split(",")),
            regex=topics[1:] if is_pattern else None,
            assignor=assignor,
        )
        return []

    def _classic(self, name: str, topics: str) -> list[str]:
        self.clients[name] = ClassicConsumer(
            self.stage, name, topics=frozenset(topics.split(",")), is_cooperative=True
        )
        return []

    def _beat(self, *names: str) -> list[str]:
        return [line for name in names for line in self._beat_one(name)]

    def _beat_one(self, name: str) -> list[str]:
        client = self.clients[name]
        if isinstance(client, ClassicConsumer):
            client.live()
            self.stage.settle()
            state = "waits" if client.is_waiting else self._parts(client.owned)
            return [f"{name}: generation {client.generation_id}, {state}"]
        answer = client.heartbeat()
        self.stage.settle()
        found = answer.value()
        if found.error is not ErrorCode.NONE:
            return [f"{name}: {found.error.name}"]
        parts = "as before" if found.assignment is None else self._parts(found.assignment)
        return [f"{name}: epoch {found.member_epoch}, {parts}"]

    def _lose(self, name: str) -> list[str]:
        client = self.clients[name]
        assert isinstance(client, Consumer)
        client.heartbeat(is_answer_lost=True)
        return []

    def _leave(self, name: str, epoch: str = "-1") -> list[str]:
        client = self.clients[name]
        if isinstance(client, ClassicConsumer):
            client.leave()
            return []
        return [f"{name}: {client.leave(int(epoch)).value().error.name}"]

    def _pass(self, delta_ms: str) -> list[str]:
        self.stage.pass_ms(int(delta_ms))
        return []

    def _interval(self, interval_ms: str) -> list[str]:
        self.stage.image.configs[RESOURCE_GROUP, "g"] = {ASSIGNMENT_INTERVAL: interval_ms}
        return []

    def _restart(self) -> list[str]:
        self.stage.restart()
        return []

    def _show(self) -> list[str]:
        group = self.stage.coordinator.group("g")
        if isinstance(group, ErrorCode):
            return [group.name]
        if isinstance(group, Group):
            return [f"classic {group.state.value} generation {group.generation_id}"]
        return self._shown(group)

    def _shown(self, group: ConsumerGroup) -> list[str]:
        lines = [
            f"{group.state.value} epoch {group.group_epoch} assignment {group.assignment_epoch}"
        ]
        for member in sorted(group.members.values(), key=lambda each: each.client_id):
            name = member.member_id if member.classic is None else member.client_id
            line = f"{name} {member.member_epoch} {member.state.name}"
            line += f" has {self._parts(member.assigned)}"
            if member.pending_revocation:
                line += f" gives up {self._parts(member.pending_revocation)}"
            target = group.target_of(member.member_id)
            if target != frozenset(member.assigned):
                line += f" should have {self._parts(target)}"
            lines.append(line)
        return lines

    def _parts(self, partitions: "object") -> str:
        by_name: dict[str, list[int]] = {}
        found: list[TopicIdPartition] = sorted(partitions)  # type: ignore[call-overload]
        for topic_id, index in found:
            by_name.setdefault(self.stage.image.topics_by_id[topic_id].name, []).append(index)
        return " ".join(f"{name}:{','.join(map(str, i))}" for name, i in by_name.items()) or "-"
