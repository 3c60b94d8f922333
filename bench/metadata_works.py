"""The works of the metadata benchmark: what is asked of a cluster, and what is measured.

Owns: the requests and the clocks around them. Must not know: how clusters are started, goals.
Everything goes through brokers, as clients do it; every wait is bounded.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from bench.clients.wire import WireClient
from bench.clusters import Cluster, Member, brokers_of, snapshots_of

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    PartitionData,
    TopicData,
)
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

Figures = dict[str, float]

CREATE_TOPICS_V = 7
ALTER_CONFIGS_V = 1
METADATA_V = 12
METADATA_FIRST_V = 9
"""Looks different on the wire: nothing of it is encoded when it is asked for first."""
DESCRIBE_QUORUM_V = 2
TOPIC_RESOURCE = 2
WAIT_S = 60.0
POLL_S = 0.01
NOT_YET = (OSError, asyncio.IncompleteReadError, ProtocolError, RuntimeError, TimeoutError)
"""What a cluster without a leader may answer; Kafka's null arrays are ProtocolErrors."""


@dataclass(frozen=True)
class Scale:
    partitions: int = 10_000
    topics: int = 100
    clients: int = 32
    rate_s: float = 8.0
    partitions_per_topic: int = 10
    answers: int = 200
    failovers: int = 5


QUICK = Scale(partitions=2_000, topics=20, clients=16, rate_s=2.0, answers=30, failovers=1)


# -- asking ----------------------------------------------------------------------------


async def create(
    client: WireClient, names: list[str], partitions: int, timeout_s: float = WAIT_S
) -> list[int]:
    """The error codes, in order."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            for name in names
        ],
        timeout_ms=int(timeout_s * 1000),
    )
    response = await client.ask(request, CREATE_TOPICS_V, CreateTopicsResponse, timeout_s + 1)
    return [topic.error_code for topic in response.topics]


async def alter(client: WireClient, topic: str, value: int) -> int:
    config = AlterableConfig(name="retention.ms", config_operation=0, value=str(value))
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config]
    )
    response = await client.ask(
        IncrementalAlterConfigsRequest(resources=[resource]),
        ALTER_CONFIGS_V,
        IncrementalAlterConfigsResponse,
    )
    return response.responses[0].error_code


async def quorum(client: WireClient) -> DescribeQuorumResponsePartitionData:
    asked = TopicData(
        topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)]
    )
    response = await client.ask(
        DescribeQuorumRequest(topics=[asked]), DESCRIBE_QUORUM_V, DescribeQuorumResponse
    )
    found = response.topics[0].partitions[0]
    if found.error_code:
        raise RuntimeError(f"DescribeQuorum: error {found.error_code}")
    return found


async def until(
    reached: Callable[[], Awaitable[bool]], what: str, timeout_s: float = WAIT_S
) -> None:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        with contextlib.suppress(*NOT_YET):
            if await reached():
                return
        await asyncio.sleep(POLL_S)
    raise SystemExit(f"{what}: not within {timeout_s:.0f} s")


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


# -- works -----------------------------------------------------------------------------


async def rate(cluster: Cluster, scale: Scale) -> Figures:
    """Records committed a second, by decisions of one record and of a topic's."""
    addresses = brokers_of(cluster)
    clients = [
        await WireClient.connect(addresses[n % len(addresses)]) for n in range(scale.clients)
    ]
    topics = [f"altered-{n}" for n in range(scale.clients)]
    assert not any(await create(clients[0], topics, 1))
    await _all_know(addresses, topics[-1:])

    async def alter_one(number: int, turn: int) -> int:
        assert await alter(clients[number], topics[number], 86_400_000 + turn) == 0
        return 1

    async def create_one(number: int, turn: int) -> int:
        names = [f"created-{number}-{turn}"]
        assert await create(clients[number], names, scale.partitions_per_topic) == [0]
        return 1 + scale.partitions_per_topic

    figures: Figures = {}
    for name, work in (("alter", alter_one), ("create", create_one)):
        before = await quorum(clients[0])
        count, seconds, latencies = await _for_a_while(scale, work)
        after = await quorum(clients[0])
        committed = after.high_watermark - before.high_watermark
        assert committed >= count, f"{count} records acknowledged, {committed} committed"
        figures[f"{name}_records_per_s"] = count / seconds
        figures[f"{name}_p99_ms"] = percentile(latencies, 0.99) * 1000
    for client in clients:
        client.close()
    return figures


async def _for_a_while(
    scale: Scale, work: Callable[[int, int], Awaitable[int]]
) -> tuple[int, float, list[float]]:
    """Records acknowledged, in how long, and how long each request took."""
    started_s = time.monotonic()
    latencies: list[float] = []

    async def one(number: int) -> int:
        records = turn = 0
        while time.monotonic() - started_s < scale.rate_s:
            asked_s = time.monotonic()
            records += await work(number, turn)
            latencies.append(time.monotonic() - asked_s)
            turn += 1
        return records

    counts = await asyncio.gather(*(one(number) for number in range(scale.clients)))
    return sum(counts), time.monotonic() - started_s, latencies


async def many_partitions(cluster: Cluster, scale: Scale) -> Figures:
    """From the first request to the moment when every broker shows every partition."""
    addresses = brokers_of(cluster)
    client = await WireClient.connect(addresses[0])
    each = scale.partitions // scale.topics
    names = [f"many-{n}" for n in range(scale.topics)]
    started_s = time.monotonic()
    for first in range(0, len(names), 10):
        errors = await create(client, names[first : first + 10], each)
        assert not any(errors), errors
    created_s = time.monotonic() - started_s
    await _all_know(addresses, names)
    seconds = time.monotonic() - started_s
    client.close()
    return {"created_s": created_s, "shown_everywhere_s": seconds}


async def _all_know(addresses: list[tuple[str, int]], names: list[str]) -> None:
    """Every broker shows these topics with a leader for every partition."""

    async def one(address: tuple[str, int]) -> None:
        client = await WireClient.connect(address)
        last = MetadataRequest(
            topics=[MetadataRequestTopic(name=names[-1])], allow_auto_topic_creation=False
        )
        every = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )

        async def shown() -> bool:
            for request in (last, every):
                response = await client.ask(request, METADATA_V, MetadataResponse)
                if not all(_is_whole(topic) for topic in response.topics):
                    return False
            return True

        await until(shown, f"{address} shows {names[-1]}")
        client.close()

    await asyncio.gather(*(one(address) for address in addresses))


def _is_whole(topic: object) -> bool:
    error = getattr(topic, "error_code", 1)
    partitions = getattr(topic, "partitions", [])
    return not error and bool(partitions) and all(p.leader_id >= 0 for p in partitions)


async def answers(cluster: Cluster, scale: Scale) -> Figures:
    """A Metadata answer with all partitions, and what a small request beside it has to wait."""
    address = brokers_of(cluster)[0]
    big, small = await WireClient.connect(address), await WireClient.connect(address)
    everything = MetadataRequest(topics=None)
    little = MetadataRequest(
        topics=[MetadataRequestTopic(name="many-0")], allow_auto_topic_creation=False
    )
    asked_s = time.monotonic()
    await big.frame(everything, METADATA_FIRST_V)
    first_s = time.monotonic() - asked_s
    took: list[float] = []
    size = 0
    for _ in range(max(3, scale.answers // 4)):
        asked_s = time.monotonic()
        size = len(await big.frame(everything, METADATA_V))
        took.append(time.monotonic() - asked_s)
    beside: list[float] = []
    busy = True

    async def storm() -> None:
        while busy:
            await big.frame(everything, METADATA_V)

    storming = asyncio.ensure_future(storm())
    for _ in range(scale.answers):
        asked_s = time.monotonic()
        await small.frame(little, METADATA_V)
        beside.append(time.monotonic() - asked_s)
        await asyncio.sleep(0.002)
    busy = False
    await storming
    big.close()
    small.close()
    return {
        "answer_bytes": float(size),
        "answer_first_ms": first_s * 1000,
        "answer_p50_ms": percentile(took, 0.5) * 1000,
        "beside_p99_ms": percentile(beside, 0.99) * 1000,
    }


async def restart(cluster: Cluster, scale: Scale) -> Figures:  # noqa: ARG001
    """A controller that does not lead: from its start to having all that was committed."""
    client = await WireClient.connect(brokers_of(cluster)[0])
    now = await quorum(client)
    member = next(m for m in cluster.members() if m.is_controller and m.node_id != now.leader_id)
    await until(partial(_has_snapshot, member), f"{member.name} has a snapshot")
    cluster.stop_member(member)
    # Something new, so that what it has shows when it is back.
    assert await create(client, ["while-it-was-away"], 1) == [0]
    target = (await quorum(client)).high_watermark
    started_s = time.monotonic()
    cluster.start_member(member)

    async def caught_up() -> bool:
        return await end_offset_of(client, member) >= target

    await until(caught_up, f"{member.name} caught up")
    seconds = time.monotonic() - started_s
    client.close()
    return {"restart_s": seconds}


async def _has_snapshot(member: Member) -> bool:
    return bool(snapshots_of(member))


async def end_offset_of(client: WireClient, member: Member) -> int:
    voters = (await quorum(client)).current_voters
    return next((v.log_end_offset for v in voters if v.replica_id == member.node_id), -1)


async def failover(cluster: Cluster, scale: Scale) -> Figures:
    """kill -9 of the active controller: how long until a topic can be created again."""
    took: list[float] = []
    for turn in range(scale.failovers):
        client = await WireClient.connect(brokers_of(cluster)[turn % len(brokers_of(cluster))])
        leader_id = (await quorum(client)).leader_id
        member = next(m for m in cluster.members() if m.node_id == leader_id)
        cluster.kill(member)
        killed_s = time.monotonic()
        await until(partial(_can_create, client, turn), "a topic after the kill")
        took.append(time.monotonic() - killed_s)
        if cluster.name == "kafka":
            cluster.start_member(member)

        await until(partial(_is_back, client, member), f"{member.name} is back")
        client.close()
    return {"failover_s": percentile(took, 0.5), "failover_max_s": max(took)}


async def _is_back(client: WireClient, member: Member) -> bool:
    return await end_offset_of(client, member) >= (await quorum(client)).high_watermark


async def _can_create(client: WireClient, turn: int) -> bool:
    """True once a creation was acknowledged, be it an earlier one whose answer was lost."""
    (error,) = await create(client, [f"after-failover-{turn}"], 1, timeout_s=2.0)
    return error in (0, 36)
