"""Quorums made by hand: formatted directories, fixed voters, a node that joins, one without any."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.nodes import meta, run_headrace, running_node, until

from headrace.client.quorum import QuorumClient
from headrace.node.local_ports import is_free

WAIT_S = 30.0


def free_ports(count: int, start: int) -> list[int]:
    """Below the kernel's own range, so that they stay free."""
    found = [port for port in range(start, start + 1_000) if is_free(port)]
    return found[:count]


def new_id() -> str:
    return run_headrace("storage", "random-uuid").strip()


def test_three_controllers_formatted_by_hand_and_a_broker(tmp_path: Path) -> None:
    cluster_id, directories = new_id(), [new_id() for _ in range(3)]
    *ports, broker_port = free_ports(4, 17_000)
    listed = ",".join(
        f"{101 + index}@127.0.0.1:{port}:{directories[index]}" for index, port in enumerate(ports)
    )
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    told = ["--set", f"controller.quorum.bootstrap.servers={servers}"]
    with ExitStack() as running:
        for index, port in enumerate(ports):
            shape = ["--data", str(tmp_path / f"c{index}"), "--node-id", str(101 + index)]
            run_headrace(
                *("storage", "format", *shape, "--cluster-id", cluster_id),
                *("--roles", "controller", "--initial-controllers", listed),
            )
            assert meta(tmp_path / f"c{index}" / "log")["directory.id"] == directories[index]
            words = ["controller", *shape, "--listen", f"127.0.0.1:{port}", *told]
            running.enter_context(running_node(tmp_path / f"c{index}.log", *words))
        words = ["--data", str(tmp_path / "b1"), "--node-id", "1", *told]
        words += ["--listen", f"127.0.0.1:{broker_port}", "--set", "process.roles=broker"]
        words += ["--set", f"cluster.id={cluster_id}"]
        running.enter_context(running_node(tmp_path / "b1.log", "broker", *words))
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker_port}"})
        admin.create_topics([NewTopic("t", 3, 1)])["t"].result(WAIT_S)
        told_json = run_headrace("quorum", "describe", "--json", "-b", f"127.0.0.1:{broker_port}")
        described = json.loads(told_json)
        voters = [r for r in described["replicas"] if r["status"] != "observer"]
        assert [voter["node_id"] for voter in voters] == [101, 102, 103]
        assert [voter["directory_id"] for voter in voters] == directories
        assert [r["node_id"] for r in described["replicas"] if r["status"] == "observer"] == [1]


def test_a_fixed_quorum_formats_itself_and_a_controller_joins_another(tmp_path: Path) -> None:
    cluster_id = new_id()
    ports = free_ports(3, 18_000)
    voters = ",".join(f"{index + 1}@127.0.0.1:{port}" for index, port in enumerate(ports[:2]))
    cluster = ["--set", f"cluster.id={cluster_id}"]
    with ExitStack() as running:
        for index, port in enumerate(ports[:2]):
            words = ["--data", str(tmp_path / f"n{index}"), "--node-id", str(index + 1), *cluster]
            words += ["--listen", f"127.0.0.1:{port}"]
            words += ["--set", f"controller.quorum.voters={voters}"]
            running.enter_context(running_node(tmp_path / f"n{index}.log", "controller", *words))
        client = QuorumClient(f"127.0.0.1:{ports[0]}", are_controllers=True)
        until(lambda: client.describe().leader_id in (1, 2))
        words = ["--data", str(tmp_path / "n3"), "--node-id", "3", *cluster]
        words += ["--listen", f"127.0.0.1:{ports[2]}"]
        words += ["--set", f"controller.quorum.bootstrap.servers=127.0.0.1:{ports[0]}"]
        words += ["--set", "controller.quorum.auto.join.enable=true"]
        running.enter_context(running_node(tmp_path / "n3.log", "controller", *words))
        until(lambda: [v.node_id for v in client.describe().voters] == [1, 2, 3])
        run_headrace("quorum", "remove", "3", "--bootstrap-controllers", f"127.0.0.1:{ports[0]}")
        try:
            run_headrace(
                *("quorum", "add", "3", "--listen", f"127.0.0.1:{ports[2]}"),
                *("--bootstrap-controllers", f"127.0.0.1:{ports[1]}"),
            )
        except AssertionError as error:
            # It joins by itself, too, and may be faster than the command.
            if "DUPLICATE_VOTER" not in str(error):
                raise
        assert [v.node_id for v in client.describe().voters] == [1, 2, 3]


def test_a_node_without_a_quorum_says_so(tmp_path: Path) -> None:
    port, metrics_port = free_ports(2, 19_000)
    log = tmp_path / "b.log"
    words = [
        "--data",
        str(tmp_path / "b"),
        "--listen",
        "127.0.0.1:0",
        "--set",
        "process.roles=broker",
    ]
    words += ["--set", f"cluster.id={new_id()}", "--metrics-listen", f"127.0.0.1:{metrics_port}"]
    words += ["--set", f"controller.quorum.bootstrap.servers=127.0.0.1:{port}"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace", "broker", *words], stdout=out, stderr=out
        )
    try:
        until(lambda: "event=no_quorum" in log.read_text())
        assert f"127.0.0.1:{port}" in log.read_text()
        status, body = health(metrics_port)
        assert (status, body["status"]) == (503, "no quorum")
    finally:
        process.terminate()
        assert process.wait(WAIT_S) == 0


def health(port: int) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())
