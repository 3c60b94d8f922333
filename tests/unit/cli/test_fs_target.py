"""Which file system a command finds."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli import fs_target
from headrace.cli.fs_target import (
    FS_VARIABLE,
    WEB_VARIABLE,
    fs_url_of,
    open_files,
    open_namenode,
    web_address_of,
)
from headrace.client import native


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(FS_VARIABLE, raising=False)
    monkeypatch.delenv(WEB_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cluster_in(folder: Path, fs: str | None) -> str:
    folder.mkdir(exist_ok=True)
    told = {"bootstrap_servers": "x:1", "fs": fs, "web": fs and fs.replace("hdfs:", "http:") + "9"}
    (folder / "cluster.json").write_text(json.dumps(told))
    return str(folder)


def test_flag_directory_environment_here(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="`headrace up` starts one here"):
        fs_url_of(None, None)
    cluster_in(nowhere / "headrace-data", "hdfs://127.0.0.1:1")
    assert fs_url_of(None, None) == "hdfs://127.0.0.1:1"
    monkeypatch.setenv(FS_VARIABLE, "hdfs://127.0.0.1:2")
    assert fs_url_of(None, None) == "hdfs://127.0.0.1:2"
    data = cluster_in(nowhere / "other", "hdfs://127.0.0.1:3")
    assert fs_url_of(None, data) == "hdfs://127.0.0.1:3"
    assert fs_url_of("host", None) == "hdfs://host:8020"
    with pytest.raises(UsageError, match="not both"):
        fs_url_of("host", data)


def test_a_namenode_that_was_started_alone(nowhere: Path) -> None:
    (nowhere / "namenode.json").write_text(
        json.dumps({"listen": "127.0.0.1:4", "http": "127.0.0.1:5"})
    )
    assert fs_url_of(None, str(nowhere)) == "hdfs://127.0.0.1:4"
    assert web_address_of(None, str(nowhere)) == "127.0.0.1:5"


def test_pages_are_those_of_the_same_file_system(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster_in(nowhere / "headrace-data", "hdfs://127.0.0.1:1")
    assert web_address_of(None, None) == "127.0.0.1:19"
    assert web_address_of(None, cluster_in(nowhere / "other", "hdfs://127.0.0.1:3")) == (
        "127.0.0.1:39"
    )
    with pytest.raises(UsageError, match="give --http"):
        web_address_of("host", None)
    monkeypatch.setenv(FS_VARIABLE, "hdfs://127.0.0.1:2")
    with pytest.raises(UsageError, match="give --http"):
        web_address_of(None, None)
    monkeypatch.setenv(WEB_VARIABLE, "http://127.0.0.1:7/")
    assert web_address_of(None, None) == "127.0.0.1:7"
    with pytest.raises(UsageError, match="give --http"):
        web_address_of("host", None)


def test_why_there_is_none(nowhere: Path) -> None:
    data = cluster_in(nowhere / "brokers", None)
    with pytest.raises(HeadraceError, match="started with --datanodes 0"):
        fs_url_of(None, data)
    with pytest.raises(HeadraceError, match="start one with `headrace up --data"):
        fs_url_of(None, str(nowhere / "missing"))


def ask(opened: Any) -> None:
    with opened as client:
        if hasattr(client, "get_file_info"):
            client.get_file_info("/")


@pytest.mark.parametrize("open_it", [open_files, open_namenode])
def test_nobody_listens(open_it: Any) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(HeadraceError, match=f"can't reach 127.0.0.1:{port}: connection refused"):
        ask(open_it(f"hdfs://127.0.0.1:{port}", None))


@pytest.mark.parametrize("open_it", [open_files, open_namenode])
def test_who_listens_does_not_answer(open_it: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "ANSWER_TIMEOUT_MS", 200)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(HeadraceError, match="does not answer; is the file system up"):
            ask(open_it(f"hdfs://127.0.0.1:{port}", None))


def test_a_client_may_be_made_before_the_namenode_is_up() -> None:
    native.telling_client("hdfs://127.0.0.1:1")


def test_files_of_this_machine_are_told_too(nowhere: Path) -> None:
    with (
        pytest.raises(HeadraceError, match="missing: no such file or directory"),
        fs_target.told_failures(),
    ):
        (nowhere / "missing").read_bytes()
