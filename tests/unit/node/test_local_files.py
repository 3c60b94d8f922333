"""The directory of a local cluster: its lock, its files, its control socket."""

import json
import os
import threading
from pathlib import Path

import pytest

from headrace.base.errors import HeadraceError
from headrace.node.local_control import ControlServer, command
from headrace.node.local_files import (
    DirectoryLock,
    Held,
    Layout,
    holder_of,
    read_json,
    replace_json,
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "cluster")
    layout.make()
    return layout


def test_one_holder_at_a_time(layout: Layout) -> None:
    assert holder_of(layout) is None
    lock = DirectoryLock(layout)
    lock.acquire()
    assert holder_of(layout) == os.getpid()
    with pytest.raises(Held, match=f"with pid {os.getpid()}"):
        DirectoryLock(layout).acquire()
    lock.release()
    assert holder_of(layout) is None
    again = DirectoryLock(layout)
    again.acquire()
    again.release()


def test_json_files_are_replaced_whole(layout: Layout) -> None:
    assert read_json(layout.ports) == {}
    replace_json(layout.ports, {"a": 1})
    replace_json(layout.ports, {"a": 2})
    assert read_json(layout.ports) == {"a": 2}
    assert sorted(p.name for p in layout.directory.iterdir()) == ["conf", "logs", "ports.json"]
    layout.ports.write_text("{torn")
    assert read_json(layout.ports) == {}
    layout.ports.write_text("[]")
    assert read_json(layout.ports) == {}


def test_a_directory_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HeadraceError, match="can't make"):
        Layout(tmp_path / "file" / "below").make()


def test_commands_are_answered(layout: Layout) -> None:
    server = ControlServer(layout)
    asked: list[dict[str, object]] = []

    def serve() -> None:
        for _ in range(2):
            while True:
                before = len(asked)
                server.serve_one(answer)
                if len(asked) > before:
                    break

    def answer(request: dict[str, object]) -> dict[str, object]:
        asked.append(request)
        return {"error": "no such node"} if request.get("node") else {"ok": True, "pid": 7}

    server._socket.settimeout(5)
    thread = threading.Thread(target=serve)
    thread.start()
    assert command(layout, "status") == {"ok": True, "pid": 7}
    with pytest.raises(HeadraceError, match="no such node"):
        command(layout, "stop", node="x")
    thread.join(5)
    assert asked == [{"command": "status"}, {"command": "stop", "node": "x"}]
    server.close()
    assert not layout.control.exists()


def test_nobody_to_command(layout: Layout) -> None:
    with pytest.raises(HeadraceError, match="no cluster is up"):
        command(layout, "status")


def test_properties_for_kafkas_tools(layout: Layout) -> None:
    layout.write_client_properties("127.0.0.1:1")
    text = (layout.configuration / "client.properties").read_text()
    assert text.splitlines()[0] == "bootstrap.servers=127.0.0.1:1"
    assert json.dumps(text)
