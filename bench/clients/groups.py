"""Members of many groups, in raw requests: how long until everybody has its partitions.

Owns: members of either protocol, each with its own connection, that do what real ones do and
read nothing: join, take and give up partitions, beat. Must not know: which server it talks to.

Run as a process: `python -m bench.clients.groups ADDRESS PROTOCOL TOPIC PARTITIONS GROUPS MEMBERS`
(members in each group); says "ready", waits for a line, prints one JSON line at the end. Then all
join at once; when every group is stable, two members of each leave while two others join.
"""

import asyncio
import json
import os
import resource
import sys
import time
import uuid
from collections.abc import Callable

from bench.clients.wire import WireClient

from headrace.client.assignment import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
    range_assign,
)
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headrace.wire.kafka.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headrace.wire.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headrace.wire.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

FIND_VERSION, JOIN_VERSION, SYNC_VERSION, BEAT_VERSION, LEAVE_VERSION = 4, 9, 5, 4, 5
CONSUMER_BEAT_VERSION = 1
BEAT_INTERVAL_S = 0.5
RETRY_S = 0.05
LEAVING = 2
LIMIT_S = 300.0


class Group:
    """What the driver knows of a group: it is stable when each partition has one owner."""

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.partitions = partitions
        self.members: list[Member] = []
        self.stable = asyncio.Event()

    def look(self) -> None:
        owned = [partition for member in self.members for partition in member.owned]
        if (
            len(owned) == self.partitions == len(set(owned))
            and all(member.owned for member in self.members)
            and len({member.epoch for member in self.members}) == 1
        ):
            self.stable.set()
        else:
            self.stable.clear()


class Member:
    """Either protocol's common part."""

    requests = 0

    def __init__(self, address: tuple[str, int], group: Group, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.owned: set[int] = set()
        self.epoch = -1
        self.is_over = False
        self._address = address
        self._wire: WireClient | None = None
        self._turn = asyncio.Lock()
        """One request at a time: who leaves waits for its last answer."""

    async def connect(self) -> None:
        self._wire = await WireClient.connect(self._address, 60.0)

    @property
    def wire(self) -> WireClient:
        assert self._wire is not None
        Member.requests += 1
        return self._wire

    async def run(self) -> None:
        while not self.is_over:
            async with self._turn:
                wait_s = await self.turn()
            if not self.is_over:
                self.group.look()
                await asyncio.sleep(wait_s)

    async def leave(self) -> None:
        self.is_over = True
        async with self._turn:
            await self.say_good_bye()

    async def turn(self) -> float:
        """One step; how long to wait for the next."""
        raise NotImplementedError

    async def say_good_bye(self) -> None:
        raise NotImplementedError


class ConsumerMember(Member):
    """Speaks the new protocol (KIP-848)."""

    def __init__(self, address: tuple[str, int], group: Group, topic: str) -> None:
        super().__init__(address, group, topic)
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self._topic_id = bytes(16)
        self._told: set[int] | None = None

    async def turn(self) -> float:
        is_joining = self.epoch == 0
        owned = None
        if is_joining or self._told != self.owned:
            owned = [TopicPartitions(topic_id=self._topic_id, partitions=sorted(self.owned))]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.name,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if is_joining else -1,
            subscribed_topic_names=[self.topic] if is_joining else None,
            topic_partitions=[] if not self.owned and owned is not None else owned,
        )
        answer = await self.wire.ask(request, CONSUMER_BEAT_VERSION, ConsumerGroupHeartbeatResponse)
        if answer.error_code:
            if answer.error_code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
            ):
                self.epoch, self._told = 0, None
                self.owned.clear()
            return RETRY_S
        if owned is not None:
            self._told = set(self.owned)
        self.epoch = answer.member_epoch
        if answer.assignment is None:
            return BEAT_INTERVAL_S
        self.owned = set()
        for topic in answer.assignment.topic_partitions:
            self._topic_id = topic.topic_id
            self.owned.update(topic.partitions)
        return 0 if self._told != self.owned else BEAT_INTERVAL_S

    async def say_good_bye(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.name, member_id=self.member_id, member_epoch=-1
        )
        await self.wire.ask(request, CONSUMER_BEAT_VERSION, ConsumerGroupHeartbeatResponse)


class ClassicMember(Member):
    """Speaks the classic protocol, eagerly, with the range assignor."""

    def __init__(self, address: tuple[str, int], group: Group, topic: str) -> None:
        super().__init__(address, group, topic)
        self.member_id = ""

    async def turn(self) -> float:
        if self.epoch >= 0 and self.member_id:
            request = HeartbeatRequest(
                group_id=self.group.name, generation_id=self.epoch, member_id=self.member_id
            )
            answer = await self.wire.ask(request, BEAT_VERSION, HeartbeatResponse)
            if answer.error_code == 0 or self.is_over:
                return BEAT_INTERVAL_S
            self._forget(answer.error_code)
        return await self._join()

    def _forget(self, error: int) -> None:
        self.owned.clear()
        self.epoch = -1
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    async def _join(self) -> float:
        metadata = encode_subscription([self.topic])
        request = JoinGroupRequest(
            group_id=self.group.name,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        joined = await self.wire.ask(request, JOIN_VERSION, JoinGroupResponse, 120.0)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return 0
        if joined.error_code:
            self._forget(joined.error_code)
            return RETRY_S
        self.member_id = joined.member_id
        answer = await self.wire.ask(
            SyncGroupRequest(
                group_id=self.group.name,
                generation_id=joined.generation_id,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name=joined.protocol_name,
                assignments=self._plan(joined),
            ),
            SYNC_VERSION,
            SyncGroupResponse,
            120.0,
        )
        if answer.error_code:
            self._forget(answer.error_code)
            return 0
        self.epoch = joined.generation_id
        self.owned = set(decode_assignment(answer.assignment).get(self.topic, ()))
        return BEAT_INTERVAL_S

    def _plan(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        if joined.leader != joined.member_id:
            return []
        members = {member.member_id: [self.topic] for member in joined.members}
        plan = range_assign(members, {self.topic: self.group.partitions})
        return [
            SyncGroupRequestAssignment(member_id=name, assignment=encode_assignment(part))
            for name, part in plan.items()
        ]

    async def say_good_bye(self) -> None:
        identity = MemberIdentity(member_id=self.member_id)
        request = LeaveGroupRequest(group_id=self.group.name, members=[identity])
        await self.wire.ask(request, LEAVE_VERSION, LeaveGroupResponse)


class Driver:
    def __init__(self, make: Callable[[Group], Member], groups: list[Group]) -> None:
        self._make = make
        self._groups = groups
        self._running: list[asyncio.Task[None]] = []

    async def prepare(self, address: tuple[str, int], size: int) -> None:
        """Connections are open and coordinators known before the clock runs."""
        wire = await WireClient.connect(address)
        for group in self._groups:
            request = FindCoordinatorRequest(coordinator_keys=[group.name])
            deadline = time.monotonic() + LIMIT_S
            while True:
                answer = await wire.ask(request, FIND_VERSION, FindCoordinatorResponse)
                if answer.coordinators[0].error_code == 0:
                    break
                assert time.monotonic() < deadline, "no coordinator in time"
                await asyncio.sleep(RETRY_S)
            group.members = [self._make(group) for _ in range(size)]
        wire.close()
        await self._connect([member for group in self._groups for member in group.members])

    async def _connect(self, members: list[Member]) -> None:
        for start in range(0, len(members), 50):
            await asyncio.gather(*(member.connect() for member in members[start : start + 50]))

    async def form(self) -> float:
        return await self._until_stable(
            [member for group in self._groups for member in group.members]
        )

    async def churn(self) -> float:
        """Two of each group go, two others come."""
        fresh: list[Member] = []
        leaving: list[Member] = []
        for group in self._groups:
            leaving += group.members[:LEAVING]
            joining = [self._make(group) for _ in range(LEAVING)]
            group.members = group.members[LEAVING:] + joining
            fresh += joining
        await self._connect(fresh)
        for group in self._groups:
            group.stable.clear()
        started = time.perf_counter()
        gone = asyncio.gather(*(member.leave() for member in leaving))
        await self._until_stable(fresh)
        await gone
        return time.perf_counter() - started

    async def _until_stable(self, fresh: list[Member]) -> float:
        started = time.perf_counter()
        self._running += [asyncio.create_task(member.run(), name="member") for member in fresh]
        waiting = asyncio.gather(*(group.stable.wait() for group in self._groups))
        await asyncio.wait_for(waiting, LIMIT_S)
        return time.perf_counter() - started

    def stop(self) -> None:
        for task in self._running:
            task.cancel()


async def measure(address: tuple[str, int], words: list[str]) -> None:
    protocol, topic, partitions, group_count, size = words
    kind = {"classic": ClassicMember, "consumer": ConsumerMember}[protocol]
    tag = os.urandom(3).hex()
    groups = [Group(f"{protocol}-{tag}-{n}", int(partitions)) for n in range(int(group_count))]
    driver = Driver(lambda group: kind(address, group, topic), groups)
    await driver.prepare(address, int(size))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    started_cpu = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    form_s = await driver.form()
    churn_s = await driver.churn()
    driver.stop()
    client_cpu_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime - started_cpu
    print(
        json.dumps(
            {
                "form_s": form_s,
                "churn_s": churn_s,
                "requests": Member.requests,
                "client_cpu_s": client_cpu_s,
            }
        )
    )


def main() -> None:
    host, port = sys.argv[1].rsplit(":", 1)
    asyncio.run(measure((host, int(port)), sys.argv[2:]))


if __name__ == "__main__":
    main()
