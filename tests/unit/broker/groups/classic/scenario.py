"""Scenarios of classic groups: commands, each with every answer that it sets free.

> set group.max.size 2        a setting of the broker, before anybody asks
> topic t 4                   make a topic, or more partitions of it
> client ann t,u              a client that subscribes to them and offers the assignor `range`
> client ann/i t …            … with the instance id i
> client ann t range,roundrobin session=6000 rebalance=30000 version=3
> subscribe ann t,u           it will join with another subscription
> join ann bob                JoinGroup
> sync ann bob                SyncGroup, the leader's with the assignment that it makes
> beat ann bob                Heartbeat
> turn ann bob                what each client's loop does next: one of the three
> leave ann                   LeaveGroup
> remove i                    LeaveGroup by an administrator, who knows an instance id alone
> again ann                   its process starts anew and knows nothing
> commit ann t:0=5            OffsetCommit; of nobody in particular as `-`
> offset t:0                  what a reader is told
> pass 45000                  let milliseconds pass
> restart                     the coordinator reads its log anew
> show                        the group
"""

from tests.unit.broker.groups.classic.clients import ClassicClient, Labels, told_parts
from tests.unit.broker.groups.stage import Stage, image_of, topic_image

from headrace.broker.groups.commits import Committer
from headrace.broker.groups.consumer.embedded_protocol import read_assignment
from headrace.broker.groups.consumer.topics import ImageTopics
from headrace.broker.groups.group import Group
from headrace.broker.groups.member import UNKNOWN_MEMBER_ID, MemberIdentity
from headrace.wire.kafka.errors import ErrorCode

NOBODY = "-"


class Scenario:
    def __init__(self, stage: Stage | None = None) -> None:
        self.stage = Stage(image=image_of()) if stage is None else stage
        self.clients: dict[str, ClassicClient] = {}
        self.labels = Labels()
        self.told: list[str] = []
        self.stage.coordinator.start()

    def run(self, words: list[str]) -> list[str]:
        verb, *rest = words
        getattr(self, f"_{verb}")(*rest)
        self.stage.settle()
        if verb in ("join", "sync", "turn"):
            waiting = (name for name in dict.fromkeys(rest) if self.clients[name].is_waiting)
            self.told += [f"{name}: waits" for name in waiting]
        told, self.told = self.told, []
        return told

    # What there is

    def _set(self, key: str, value: str) -> None:
        assert not self.clients, "settings come first"
        config = {**self.stage.config, key: int(value)}
        self.stage = Stage(config=config, image=self.stage.image)
        self.stage.coordinator.start()

    def _topic(self, name: str, count: str) -> None:
        topic = topic_image(name, int(count))
        image = self.stage.image
        image.topics_by_name[name] = topic
        image.topics_by_id[topic.topic_id] = topic
        self.stage.coordinator.on_topics_changed([name])

    def _client(self, name: str, topics: str, protocols: str = "range", *options: str) -> None:
        client_id, _, instance_id = name.partition("/")
        chosen = {key: int(value) for key, _, value in (each.partition("=") for each in options)}
        self.clients[client_id] = ClassicClient(
            self.stage,
            self.labels,
            self.told_by,
            client_id,
            tuple(topics.split(",")),
            tuple(protocols.split(",")),
            instance_id or None,
            session_ms=chosen.get("session", 10_000),
            rebalance_ms=chosen.get("rebalance", 60_000),
            version=chosen.get("version", 9),
        )

    def told_by(self, line: str) -> None:
        self.told.append(line)

    def _subscribe(self, name: str, topics: str) -> None:
        self.clients[name].topics = tuple(topics.split(","))
        self.clients[name].must_join = True

    # What clients do

    def _join(self, *names: str) -> None:
        self._each("join", names)

    def _sync(self, *names: str) -> None:
        self._each("sync", names)

    def _beat(self, *names: str) -> None:
        self._each("beat", names)

    def _turn(self, *names: str) -> None:
        self._each("turn", names)

    def _leave(self, *names: str) -> None:
        self._each("leave", names)

    def _again(self, *names: str) -> None:
        self._each("forget", names)

    def _each(self, verb: str, names: tuple[str, ...]) -> None:
        for name in names:
            getattr(self.clients[name], verb)()
            self.stage.settle()

    def _remove(self, instance_id: str) -> None:
        identity = MemberIdentity(UNKNOWN_MEMBER_ID, instance_id)
        outcomes = self.stage.coordinator.leave("g", [identity])
        error = outcomes if isinstance(outcomes, ErrorCode) else outcomes[0]
        self.told.append(f"{instance_id}: removed {error.name}")

    def _commit(self, name: str, *pairs: str) -> None:
        offsets = {}
        for pair in pairs:
            where, _, offset = pair.partition("=")
            offsets[_partition(where)] = int(offset)
        if name != NOBODY:
            self.clients[name].commit(offsets)
            return
        outcomes = self.stage.commit(offsets, "g", Committer("", None, -1)).value()
        self.told.append(f"commit {' '.join(error.name for error in outcomes.values())}")

    def _offset(self, *wheres: str) -> None:
        for where in wheres:
            found = self.stage.committed(*_partition(where))
            self.told.append(f"{where} {'none' if found is None else found}")

    # Time, and the coordinator's life

    def _pass(self, delta_ms: str) -> None:
        self.stage.pass_ms(int(delta_ms))

    def _restart(self) -> None:
        self.stage.restart()

    def _show(self) -> None:
        group = self.stage.coordinator.group("g")
        if isinstance(group, ErrorCode):
            self.told.append(group.name)
            return
        assert isinstance(group, Group)
        self.told.append(f"{group.state.value} generation {group.generation_id}")
        topics = ImageTopics(self.stage.image)
        for member in group.members.values():
            name = self.labels.of(member.member_id)
            lead = " leads" if group.leader_id == member.member_id else ""
            part = told_parts(self.stage, read_assignment(member.assignment, topics))
            self.told.append(f"{name}{lead} has {part}")
        self.told += [f"{self.labels.of(id_)} is awaited" for id_ in group.pending_members]


def _partition(where: str) -> tuple[str, int]:
    topic, _, index = where.partition(":")
    return topic, int(index)
