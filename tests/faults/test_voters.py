"""Voters that lost something: the end of their metadata log (B2), or their whole disk (W6).

Three nodes, each a broker and a controller. What was granted is never forgotten, whoever elects;
who lacks something leads nothing before it has it again, and says what it lacks.
"""

import shutil
import time
from pathlib import Path

import pytest
from tests.faults.node_rig import REPLICATED, FormattedRig, NodeRig, RigNode
from tests.faults.quorum_view import (
    active_controller,
    await_other_controller,
    await_quorum_whole,
    compare_metadata,
    controllers_of,
    describe,
    leader_told_by,
    metadata_folder,
)
from tests.faults.replicas import await_told
from tests.faults.test_replication import FAST, tell
from tests.faults.topic_load import creation, open_connection, topics_at
from tests.interop.nodes import until

from headrace.base.ids import uuid_bytes
from headrace.client.quorum import QuorumClient
from headrace.wire.kafka.messages.create_topics import CreateTopicsResponse
from headrace.wire.kafka.record_batch import read_header

NODES = (1, 2, 3)
SETTINGS = {**REPLICATED, **{key: str(value) for key, value in FAST.items()}}
NOBODY_S = 8.0
"""Many election time-outs."""
WAIT_S = 60.0


def nodes_at(base: Path) -> list[RigNode]:
    return [RigNode(node, base / str(node), [base / str(node) / "log"]) for node in NODES]


def create(rig: NodeRig, asked: int, name: str) -> bytes:
    """Its id, once it is granted."""
    connection = open_connection(rig.nodes[asked].listen)
    try:
        result = connection.call(creation(name), CreateTopicsResponse).topics[0]
    finally:
        connection.close()
    assert result.error_code == 0, result
    return bytes(result.topic_id)


def forget(node: RigNode, name: str) -> int:
    """Its metadata log ends before the batch that speaks of the topic; how many bytes went."""
    (log,) = metadata_folder(node).glob("*.log")
    content, position = log.read_bytes(), 0
    while True:
        assert position < len(content), f"void: {name} is not there"
        end = position + read_header(content, position).size_bytes
        if name.encode() in content[position:end]:
            break
        position = end
    with log.open("r+b") as file:
        file.truncate(position)
    return len(content) - position


@pytest.mark.long
def test_b2_a_shortened_voter_and_one_that_lags_do_not_forget_what_the_third_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with NodeRig(nodes_at(tmp_path), SETTINGS) as rig:
        first = active_controller(rig)
        second, third = [node for node in NODES if node != first]
        create(rig, first, "before")
        await_quorum_whole(rig)
        rig.kill(third)
        topic_id = create(rig, first, "granted-by-two")
        rig.kill(first)
        rig.kill(second)
        cut_bytes = forget(rig.nodes[second], "granted-by-two")
        rig.launch(rig.nodes[second])
        rig.launch(rig.nodes[third])
        until(lambda: "event=quorum_log_lacks" in rig.nodes[second].log_text(), WAIT_S)
        deadline_s = time.monotonic() + NOBODY_S
        while time.monotonic() < deadline_s:
            told = [leader_told_by(address) for address in controllers_of(rig, first)]
            assert not set(told) & {second, third}, "those who forgot have elected one of them"
            time.sleep(0.05)
        rig.launch(rig.nodes[first])
        for node in rig.nodes.values():
            rig.await_started(node)
        quorum = await_quorum_whole(rig)
        for node in rig.nodes.values():
            until(lambda node=node: topics_at(node.listen).get("granted-by-two") == topic_id)
        batches = compare_metadata(rig.nodes.values(), quorum.high_watermark)
        assert "event=quorum_log_complete" in rig.nodes[second].log_text()
    line = (
        f"{cut_bytes} bytes cut of one of three, 0 topics lost, {batches} batches the same on all"
    )
    tell(capsys, "B2, a voter and one that lags", line)


@pytest.mark.long
def test_w6_a_voter_with_an_empty_disk_votes_no_more_until_it_is_voted_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FormattedRig(nodes_at(tmp_path), SETTINGS) as rig:
        victim = active_controller(rig)
        ids = {name: create(rig, victim, name) for name in ("one", "two", "three")}
        (before,) = [each for each in describe(rig).voters if each.node_id == victim]
        rig.kill(victim)
        failover_s = await_other_controller(rig, victim)
        shutil.rmtree(rig.nodes[victim].log_dirs[0])
        rig.start(victim)
        servers = ",".join(rig.addresses())
        quorum = QuorumClient(servers, patience_ms=30_000)
        (now,) = until(
            lambda: [
                each
                for each in quorum.describe().replicas
                if each.node_id == victim and each.directory_id != before.directory_id
            ],
            WAIT_S,
        )
        assert now.status == "observer", "an empty disk votes"
        assert describe(rig).leader_id != victim
        quorum.remove(victim, uuid_bytes(before.directory_id))
        node = rig.nodes[victim]
        directory_id = uuid_bytes(now.directory_id)
        quorum.add(victim, directory_id, "CONTROLLER", node.host, node.controller_port)
        whole = await_quorum_whole(rig)
        assert {each.node_id for each in whole.voters} == set(NODES)
        for node in rig.nodes.values():
            until(lambda node=node: topics_at(node.listen).items() >= ids.items())
        batches = compare_metadata(rig.nodes.values(), whole.high_watermark)
        await_told(rig.addresses(), "one", bool)
    line = f"another led after {failover_s:.2f} s, 0 of {len(ids)} topics lost, {batches} batches"
    tell(capsys, "W6, a voter with an empty disk", f"{line} the same on all")
