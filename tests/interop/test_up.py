"""`headrace up` and its company: real processes, real signals, one directory."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

TIMEOUT_S = 60


def headrace(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if "HEADRACE" not in key}
    return subprocess.run(
        [sys.executable, "-P", "-m", "headrace", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment,
        check=False,
    )


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "headrace", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(*words: str, stdin: str = "") -> str:
    said = headrace(*words, stdin=stdin)
    assert said.returncode == 0, said.stderr
    return said.stdout


def until(reached: Callable[[], Any], timeout_s: float = 20.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = reached()
        if value:
            return value
        time.sleep(0.02)
    return pytest.fail("it did not happen in time")


def cluster_of(data: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((data / "cluster.json").read_text())
    return content


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def data() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="headrace-up-"))
    yield directory
    headrace("down", "--data", str(directory))
    shutil.rmtree(directory)


def up_alone(data: Path, *words: str) -> str:
    return done("up", "--data", str(data), "--detach", "--datanodes", "0", *words)


@pytest.fixture
def up(data: Path) -> Path:
    """A broker alone: what these tests are about costs no file system."""
    up_alone(data, "--set", "offsets.topic.num.partitions=2")
    return data


def test_a_cluster_comes_up_serves_and_goes_down(data: Path) -> None:
    told = json.loads(up_alone(data, "--json"))
    described = cluster_of(data)
    assert told["bootstrap_servers"] == described["bootstrap_servers"]
    (node,) = described["nodes"]
    assert (node["name"], node["id"], node["role"]) == ("broker-1", 1, "broker,controller")
    assert node["listen"] == described["bootstrap_servers"]
    assert is_alive(node["pid"])
    assert Path(node["log"]).read_text()
    assert (described["fs"], described["web"]) == (None, None)
    assert not (data / "conf" / "core-site.xml").exists()
    properties = (data / "conf" / "client.properties").read_text()
    assert f"bootstrap.servers={described['bootstrap_servers']}\n" in properties
    with urllib.request.urlopen(f"http://{node['metrics']}/health", timeout=5) as health:
        assert health.status == 200

    done("produce", "events", "--data", str(data), stdin="hello\n")
    consumer = Consumer(
        {
            "bootstrap.servers": described["bootstrap_servers"],
            "group.id": "up",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["events"])
    message = until(lambda: consumer.poll(1.0))
    assert message.value() == b"hello"
    consumer.close()

    assert json.loads(done("status", "--data", str(data), "--json"))["up"] is True
    done("down", "--data", str(data))
    assert not is_alive(node["pid"])
    assert not (data / "cluster.json").exists()
    said = headrace("status", "--data", str(data))
    assert (said.returncode, "no cluster is up" in said.stderr) == (1, True)
    done("down", "--data", str(data))


def test_a_restart_keeps_data_and_ports(up: Path) -> None:
    before = cluster_of(up)["bootstrap_servers"]
    done("produce", "kept", "--data", str(up), stdin="one\ntwo\n")
    done("down", "--data", str(up))
    up_alone(up)
    assert cluster_of(up)["bootstrap_servers"] == before
    assert done("consume", "kept", "--data", str(up), "-e") == "one\ntwo\n"


def test_a_second_up_says_who_holds_the_directory(up: Path) -> None:
    holder = json.loads(done("status", "--data", str(up), "--json"))["pid"]
    for words in ([], ["--detach"]):
        said = headrace("up", "--data", str(up), *words)
        assert said.returncode == 1
        assert f"pid {holder}" in said.stderr
    assert (up / "cluster.json").exists()


def test_a_killed_node_is_back_within_a_second(up: Path) -> None:
    done("produce", "survives", "--data", str(up), stdin="one\n")
    (node,) = cluster_of(up)["nodes"]
    os.kill(node["pid"], signal.SIGKILL)
    killed = time.monotonic()
    until(lambda: cluster_of(up)["nodes"][0]["pid"] not in (None, node["pid"]))
    assert time.monotonic() - killed < 1.0
    assert done("consume", "survives", "--data", str(up), "-e") == "one\n"
    status = json.loads(done("status", "--data", str(up), "--json"))
    assert status["nodes"][0]["restarts"] == 1, Path(node["log"]).read_text()


def test_clients_outlive_a_killed_node(up: Path) -> None:
    """A producer and a consumer at work while their broker is killed: all once, in order."""
    done("topic", "create", "stream", "--data", str(up))
    lines = [f"{number}\n" for number in range(20_000)]
    consumer = start("consume", "stream", "--data", str(up), "--max", str(len(lines)))
    producer = start("produce", "stream", "--data", str(up))
    assert producer.stdin is not None
    producer.stdin.writelines(lines[: len(lines) // 2])
    producer.stdin.flush()
    os.kill(cluster_of(up)["nodes"][0]["pid"], signal.SIGKILL)
    _, said = producer.communicate("".join(lines[len(lines) // 2 :]), timeout=TIMEOUT_S)
    assert producer.returncode == 0, said
    out, said = consumer.communicate(timeout=TIMEOUT_S)
    assert consumer.returncode == 0, said
    assert out.splitlines(keepends=True) == lines


def test_without_restart_a_killed_node_stays_down(data: Path) -> None:
    up_alone(data, "--no-restart")
    (node,) = cluster_of(data)["nodes"]
    os.kill(node["pid"], signal.SIGKILL)
    until(lambda: cluster_of(data)["nodes"][0]["pid"] is None)
    assert headrace("status", "--data", str(data)).returncode == 1
    done("node", "start", "broker-1", "--data", str(data))
    assert json.loads(done("status", "--data", str(data), "--json"))["up"] is True


def test_nodes_are_stopped_started_and_restarted_by_name(up: Path) -> None:
    (first,) = cluster_of(up)["nodes"]
    restarted = json.loads(done("node", "restart", "broker-1", "--data", str(up), "--json"))
    assert restarted["pid"] not in (None, first["pid"])
    done("node", "stop", "broker-1", "--data", str(up))
    assert cluster_of(up)["nodes"][0]["pid"] is None
    assert not is_alive(restarted["pid"])
    done("node", "start", "broker-1", "--data", str(up))
    started = cluster_of(up)["nodes"][0]
    assert is_alive(started["pid"])
    assert started["listen"] == first["listen"]
    said = headrace("node", "stop", "broker-9", "--data", str(up))
    assert (said.returncode, "broker-1" in said.stderr) == (1, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all_cleanly(data: Path, number: signal.Signals) -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-P", "-m", "headrace", "up", "--data", str(data), "--datanodes", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: (data / "cluster.json").exists() or supervisor.poll() is not None, 60)
    pid = None if supervisor.poll() is not None else cluster_of(data)["nodes"][0]["pid"]
    supervisor.send_signal(number)
    out, err = supervisor.communicate(timeout=20)
    assert pid is not None, err
    assert supervisor.returncode == 0
    assert "not stop cleanly" not in err
    assert "kcat -b 127.0.0.1:" in out
    assert not is_alive(pid)
    assert not (data / "cluster.json").exists()


def test_what_a_killed_supervisor_left_is_cleared(up: Path) -> None:
    status = json.loads(done("status", "--data", str(up), "--json"))
    orphan = status["nodes"][0]["pid"]
    os.kill(status["pid"], signal.SIGKILL)
    until(lambda: not is_alive(status["pid"]))
    assert is_alive(orphan)
    up_alone(up)
    assert not is_alive(orphan)
    again = json.loads(done("status", "--data", str(up), "--json"))
    assert again["up"]
    os.kill(again["pid"], signal.SIGKILL)
    until(lambda: not is_alive(again["pid"]))
    done("down", "--data", str(up))
    assert not is_alive(again["nodes"][0]["pid"])


def test_ports_from_a_base(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        base = taken.getsockname()[1]
        words = ["--datanodes", "0", "--ports", str(base), "--detach"]
        said = headrace("up", "--data", str(data), *words)
        assert said.returncode == 1
        assert f"port {base} for broker-1 is in use" in said.stderr
    base = next(port for port in range(23_000, 31_000, 7) if _is_free(port, port + 500))
    up_alone(data, "--ports", str(base))
    assert cluster_of(data)["bootstrap_servers"] == f"127.0.0.1:{base}"


def _is_free(*ports: int) -> bool:
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return False
    return True


def test_settings_reach_the_broker(up: Path) -> None:
    done("down", "--data", str(up))
    up_alone(up, "--set", "num.partitions=5")
    done("produce", "wide", "--data", str(up), stdin="x\n")
    topic = json.loads(done("topic", "describe", "wide", "--data", str(up), "--json"))
    assert len(topic["partitions"]) == 5


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--set", "no.such.key=1"], "no.such.key"),
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "nonsense"], "KEY=VALUE"),
        (["--brokers", "0"], "1 to 100 brokers"),
        (["--controllers", "101"], "0 to 100 controllers"),
        (["--datanodes", "34"], "0 to 33 DataNodes"),
        (["--set", "dfs.blocksizes=1"], "did you mean dfs.blocksize?"),
        (["--set", "dfs.replication=none"], "dfs.replication"),
        (["--datanodes", "0", "--set", "dfs.replication=1"], "--datanodes 0 leaves out"),
        (["--ports", "65500"], "ports go from 1 to 65535"),
    ],
)
def test_wrong_usage_is_told_before_anything_starts(
    data: Path, words: list[str], reason: str
) -> None:
    said = headrace("up", "--data", str(data), *words)
    assert said.returncode == 2
    assert reason in said.stderr
    assert not (data / "cluster.json").exists()


def test_a_node_that_can_not_start_is_explained(data: Path) -> None:
    log = data / "broker-1" / "log"
    log.mkdir(parents=True)
    (log / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=7\n")
    said = headrace("up", "--data", str(data), "--detach", "--datanodes", "0")
    assert said.returncode == 1
    assert "broker-1 ended while it started" in said.stderr
    assert "belongs to node 7" in said.stderr
    assert not (data / "cluster.json").exists()


def test_a_node_that_can_not_be_formatted_is_explained(data: Path) -> None:
    (data / "broker-1").mkdir(parents=True)
    (data / "broker-1" / "log").write_text("a file in the way")
    said = headrace("up", "--data", str(data), "--detach", "--datanodes", "0")
    assert said.returncode == 1
    assert "broker-1 can't be formatted" in said.stderr
    assert "Not a directory" in said.stderr
    assert not (data / "cluster.json").exists()


def test_a_directory_with_a_long_name_is_fine(data: Path) -> None:
    """The control socket's path would be longer than the system allows."""
    deep = data / ("d" * 100) / ("e" * 100)
    up_alone(deep)
    assert json.loads(done("status", "--data", str(deep), "--json"))["up"] is True
    done("down", "--data", str(deep))


def test_nothing_up_is_said(data: Path) -> None:
    said = headrace("node", "stop", "broker-1", "--data", str(data))
    assert (said.returncode, "no cluster is up" in said.stderr) == (1, True)
    said = headrace("topic", "list", "--data", str(data))
    assert (said.returncode, "headrace up --data" in said.stderr) == (1, True)


def test_the_demo_tells_its_story(data: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    told = subprocess.run(
        [sys.executable, "-m", "demo", "--data", str(data / "story")],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert "after the crash a new reader got all 20,000 events" in told.stdout
    assert "after both crashes all 24 MiB are read back the same" in told.stdout
    assert not (data / "story" / "cluster.json").exists()
