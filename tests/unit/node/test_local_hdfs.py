"""The file system of a local cluster, against a NameNode that says what a test wants."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from headrace.base.errors import HeadraceError
from headrace.node.local_answers import health_of, http_json, listens, node_answers
from headrace.node.local_files import Layout
from headrace.node.local_hdfs import make_directories, reason_to_wait, write_hadoop_configuration
from headrace.node.local_plan import ClusterPlan, NameNodePlan, plan_cluster


@dataclass
class Pages:
    """What is answered, and what was asked."""

    port: int = 0
    status: int = 200
    answer: object = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def namenode(self) -> NameNodePlan:
        return NameNodePlan("namenode-1", 1, self.port)


@pytest.fixture
def pages() -> Iterator[Pages]:
    told = Pages()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.asked.append(f"{self.command} {self.path}")
            body = json.dumps(told.answer).encode()
            self.send_response(told.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    told.port = server.server_address[1]
    yield told
    server.shutdown()
    server.server_close()
    thread.join()


def cluster(pages: Pages, datanodes: int = 2) -> ClusterPlan:
    planned = plan_cluster(1, 0, datanodes, None, {}, random.Random(1))
    return replace(planned, namenode=pages.namenode)


@pytest.mark.parametrize(
    ("live", "safe_mode", "reason"),
    [
        (1, True, "1 of 2 DataNodes are live"),
        (1, False, "1 of 2 DataNodes are live"),
        (2, True, "dfs.namenode.safemode.threshold-pct=0"),
        (2, False, ""),
        (3, False, ""),
    ],
)
def test_ready_is_out_of_safe_mode_with_every_datanode(
    pages: Pages, live: int, safe_mode: bool, reason: str
) -> None:
    pages.answer = {"live_datanodes": live, "safe_mode": safe_mode}
    told = reason_to_wait(cluster(pages))
    assert reason in told
    assert bool(told) is bool(reason)


def test_a_namenode_that_is_away_is_waited_for() -> None:
    away = cluster(Pages(port=1))
    assert reason_to_wait(away) == "namenode-1 does not answer"
    assert reason_to_wait(plan_cluster(1, 0, 0, None, {}, random.Random(1))) == ""


def test_nodes_answer_as_what_they_are(pages: Pages) -> None:
    namenode = pages.namenode.described()
    datanode = {**namenode, "role": "datanode"}
    for status, body, of_name, of_data in [
        (200, {"status": "ok"}, True, True),
        (503, {"status": "degraded"}, True, True),
        (503, {"status": "registering"}, True, False),
        (200, ["no object"], False, False),
    ]:
        pages.status, pages.answer = status, body
        assert (node_answers(namenode), node_answers(datanode)) == (of_name, of_data)
    gone = {**namenode, "http": "127.0.0.1:1"}
    assert not node_answers(gone)
    assert health_of("127.0.0.1:1") is None
    assert (listens(pages.address), listens("127.0.0.1:1")) == (True, False)


def test_an_answer_has_its_status(pages: Pages) -> None:
    pages.status, pages.answer = 404, {"why": "ü" * 100_000}
    assert http_json("GET", pages.address, "/x") == (404, pages.answer)


def test_directories_are_asked_for_as_the_superuser(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ann b")
    pages.answer = {"boolean": True}
    make_directories(pages.namenode)
    assert pages.asked == [
        "PUT /webhdfs/v1/tmp?op=MKDIRS&permission=1777&user.name=ann%20b",
        "PUT /webhdfs/v1/user/ann%20b?op=MKDIRS&permission=755&user.name=ann%20b",
    ]


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda pages: setattr(pages, "port", 1), "did not answer"),
        (lambda pages: setattr(pages, "answer", {"boolean": False}), "/tmp can't be made"),
        (
            lambda pages: (
                setattr(pages, "status", 403),
                setattr(pages, "answer", {"RemoteException": {"message": "no quota left"}}),
            ),
            "no quota left",
        ),
    ],
)
def test_directories_that_can_not_be_made(
    pages: Pages, break_it: Callable[[Pages], Any], reason: str
) -> None:
    break_it(pages)
    with pytest.raises(HeadraceError, match=reason):
        make_directories(pages.namenode)


def properties(path: Path) -> dict[str, str]:
    return {
        str(each.findtext("name")): str(each.findtext("value"))
        for each in ElementTree.parse(path).getroot()
    }


def test_hadoop_is_told_where_and_how(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.make()
    plan = plan_cluster(1, 0, 3, None, {}, random.Random(1))
    assert plan.namenode is not None
    given = {"dfs.replication": "2", "headrace.log.level": "debug", "dfs.hosts": "a<b&c>"}
    write_hadoop_configuration(layout, plan, given)
    core, site = tmp_path / "conf" / "core-site.xml", tmp_path / "conf" / "hdfs-site.xml"
    assert properties(core) == {"fs.defaultFS": plan.namenode.url}
    told = properties(site)
    assert (told["dfs.replication"], told["dfs.hosts"]) == ("2", "a<b&c>")
    assert told["dfs.namenode.rpc-address"] == plan.namenode.listen
    assert told["dfs.namenode.http-address"] == plan.namenode.metrics
    assert "headrace.log.level" not in told
    best_effort = "dfs.client.block.write.replace-datanode-on-failure.best-effort"
    assert told[best_effort] == "true"
    many = plan_cluster(1, 0, 4, None, {}, random.Random(1))
    write_hadoop_configuration(layout, many, {})
    assert best_effort not in properties(site)
    alone = plan_cluster(1, 0, 0, None, {}, random.Random(1))
    write_hadoop_configuration(layout, alone, {})
    assert not core.exists()
    assert not site.exists()
