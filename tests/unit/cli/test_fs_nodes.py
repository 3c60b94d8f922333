"""What is said while a DataNode leaves."""

from typing import Any

import pytest

from headrace.cli import fs_nodes
from headrace.client.namenode import AdminProgress


def test_open_files_that_hold_it_up_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fs_nodes, "_POLL_S", 0)
    monkeypatch.setattr(fs_nodes, "_NAME_AFTER_S", 0)
    monkeypatch.setattr(fs_nodes, "open_files_on", lambda _, nodes: ["/a", "/b", "/c", *nodes])
    states = [AdminProgress("h:1", "DECOMMISSION_INPROGRESS", 1)] * 3
    states.append(AdminProgress("h:1", "DECOMMISSIONED", 0))

    class NameNode:
        def admin_progress(self, _: str) -> list[AdminProgress]:
            return [states.pop(0)]

    namenode: Any = NameNode()
    (done,) = fs_nodes._await_done(namenode, "h:1", namenode.admin_progress("h:1"))
    assert done.state == "DECOMMISSIONED"
    told = capsys.readouterr().err
    assert told.count("4 files are being written there and may hold it up: /a, /b, /c, …") == 1
