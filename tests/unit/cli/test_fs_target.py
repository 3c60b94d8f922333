"""Which file system a command finds."""

import json
from pathlib import Path

import pytest

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.fs_target import FS_VARIABLE, fs_url_of, web_address_of


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(FS_VARIABLE, raising=False)
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


def test_why_there_is_none(nowhere: Path) -> None:
    data = cluster_in(nowhere / "brokers", None)
    with pytest.raises(HeadraceError, match="started with --datanodes 0"):
        fs_url_of(None, data)
    with pytest.raises(HeadraceError, match="start one with `headrace up --data"):
        fs_url_of(None, str(nowhere / "missing"))
