"""WebHDFS: the `hdfs` package as client, and plain HTTP where only the wire shows."""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from hdfs import InsecureClient
from hdfs.util import HdfsError
from tests.interop.hdfs.conftest import SETTINGS, FileSystem

from headrace.testing.filesystem import LocalFileSystem


@pytest.fixture(scope="module")
def proxying() -> Iterator[LocalFileSystem]:
    """A NameNode that moves the data itself."""
    settings = {**SETTINGS, "headrace.webhdfs.proxy": "true"}
    with LocalFileSystem(datanodes=1, settings=settings) as running:
        yield running


@pytest.fixture
def web(dfs: FileSystem) -> InsecureClient:
    return InsecureClient(dfs.http_url, user=os.environ.get("USER") or "root")


def ask(url: str, method: str = "GET") -> tuple[int, Any]:
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            body = response.read()
            return response.status, json.loads(body) if body else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_write_read_append(web: InsecureClient, folder: str) -> None:
    data = os.urandom(2_500_000)
    web.write(f"{folder}/f", data)
    with web.read(f"{folder}/f") as reader:
        assert reader.read() == data
    web.write(f"{folder}/f", b"more", append=True)
    with web.read(f"{folder}/f", offset=2_499_990) as reader:
        assert reader.read() == data[-10:] + b"more"
    with web.read(f"{folder}/f", offset=1_048_570, length=20) as reader:
        assert reader.read() == data[1_048_570:1_048_590]
    assert web.status(f"{folder}/f")["length"] == 2_500_004


def test_a_stream_of_unknown_length(web: InsecureClient, folder: str) -> None:
    with web.write(f"{folder}/f", encoding="utf-8") as writer:
        for number in range(1000):
            writer.write(f"line {number}\n")
    with web.read(f"{folder}/f", encoding="utf-8") as reader:
        assert reader.read() == "".join(f"line {number}\n" for number in range(1000))


def test_an_empty_file_and_one_that_exists(web: InsecureClient, folder: str) -> None:
    web.write(f"{folder}/f", b"")
    assert web.status(f"{folder}/f")["length"] == 0
    with pytest.raises(HdfsError, match="exists"):
        web.write(f"{folder}/f", b"x")
    web.write(f"{folder}/f", b"x", overwrite=True, replication=1, permission=600)
    status = web.status(f"{folder}/f")
    assert (status["replication"], status["permission"]) == (1, "600")


def test_names(web: InsecureClient, folder: str) -> None:
    web.makedirs(f"{folder}/a/b", permission=750)
    web.write(f"{folder}/a/f", b"x")
    assert web.list(f"{folder}/a") == ["b", "f"]
    assert dict(web.list(f"{folder}/a", status=True))["b"]["permission"] == "750"
    web.rename(f"{folder}/a/f", f"{folder}/a/g")
    assert web.delete(f"{folder}/a/g")
    assert not web.delete(f"{folder}/a/g")
    with pytest.raises(HdfsError, match="empty"):
        web.delete(f"{folder}/a")
    assert web.delete(f"{folder}/a", recursive=True)
    assert web.status(f"{folder}/a", strict=False) is None
    with pytest.raises(HdfsError, match="does not exist"):
        web.status(f"{folder}/a")


def test_attributes(web: InsecureClient, folder: str) -> None:
    web.write(f"{folder}/f", b"hello")
    web.set_permission(f"{folder}/f", 640)
    web.set_owner(f"{folder}/f", owner="anna", group="staff")
    web.set_times(f"{folder}/f", modification_time=1_700_000_000_000)
    web.set_replication(f"{folder}/f", 2)
    web.set_acl(f"{folder}/f", "user::rw-,user:eve:r--,group::r--,mask::r--,other::---")
    status = web.status(f"{folder}/f")
    assert (status["owner"], status["group"], status["permission"]) == ("anna", "staff", "640")
    assert (status["modificationTime"], status["replication"]) == (1_700_000_000_000, 2)
    assert "user:eve:r--" in web.acl_status(f"{folder}/f")["entries"]
    assert web.content(folder)["fileCount"] == 1
    assert web.checksum(f"{folder}/f")["algorithm"].endswith("MD5-of-512CRC32C")


def test_snapshots(web: InsecureClient, folder: str) -> None:
    web.allow_snapshot(folder)
    assert web.create_snapshot(folder, "s1") == f"{folder}/.snapshot/s1"
    web.rename_snapshot(folder, "s1", "s2")
    web.delete_snapshot(folder, "s2")
    web.disallow_snapshot(folder)


def test_refusals_are_told_as_java_would(dfs: FileSystem, folder: str) -> None:
    base = f"{dfs.http_url}/webhdfs/v1"
    status, body = ask(f"{base}{folder}/nope?op=GETFILESTATUS&user.name=root")
    assert (status, body["RemoteException"]["exception"]) == (404, "FileNotFoundException")
    status, body = ask(f"{base}{folder}/x?op=MKDIRS&user.name=eve", "PUT")
    assert (status, body["RemoteException"]["exception"]) == (403, "AccessControlException")
    for query in ("op=NONSENSE", "op=MKDIRS", "user.name=root"):
        status, body = ask(f"{base}{folder}?{query}")
        assert status == 400, query
        assert "Exception" in body["RemoteException"]["exception"], query
    status, body = ask(f"{base}{folder}?op=SETPERMISSION&permission=999&user.name=root", "PUT")
    assert status == 400


def test_where_data_is_can_be_asked_without_going_there(dfs: FileSystem, folder: str) -> None:
    url = f"{dfs.http_url}/webhdfs/v1{folder}/f?op=CREATE&noredirect=true&user.name=root"
    status, body = ask(url, "PUT")
    assert status == 200
    assert f"/webhdfs/v1{folder}/f" in body["Location"]


@pytest.mark.parametrize("how", ["file", "standard input", "without Expect"])
@pytest.mark.parametrize("size", [0, 100_000, 1_048_577, 3_000_000, 20_000_000])
def test_curl_follows_the_redirect_with_its_file(
    dfs: FileSystem, folder: str, tmp_path: Path, size: int, how: str
) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    data = os.urandom(size)
    source = tmp_path / "source"
    source.write_bytes(data)
    url = f"{dfs.http_url}/webhdfs/v1{folder}/f?op=CREATE&user.name=root"
    command = [curl, "-sS", "-L", "-m", "30", "-w", "%{http_code} %{num_redirects}"]
    if how == "without Expect":
        command += ["-H", "Expect:"]
    command += ["-T", "-" if how == "standard input" else str(source), url]
    done = subprocess.run(command, input=data, capture_output=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (b"201 1", b"")
    with urllib.request.urlopen(url.replace("CREATE", "OPEN"), timeout=30) as response:
        assert response.read() == data


@pytest.mark.parametrize("size", [500_000, 3_000_000])
@pytest.mark.parametrize("is_chunked", [False, True], ids=["counted", "chunked"])
def test_a_client_that_sends_its_body_to_the_namenode_is_redirected(
    dfs: FileSystem, folder: str, size: int, *, is_chunked: bool
) -> None:
    """Without asking first: as `requests` does."""
    data = os.urandom(size)
    url = f"{dfs.http_url}/webhdfs/v1{folder}/f?op=CREATE&user.name=root"
    body: Any = iter([data[: size // 2], data[size // 2 :]]) if is_chunked else data
    first = requests.put(url, data=body, allow_redirects=False, timeout=30)
    assert first.status_code == 307
    assert requests.put(first.headers["Location"], data=data, timeout=30).status_code == 201
    read = requests.get(url.replace("CREATE", "OPEN"), timeout=30)
    assert read.content == data


def test_a_namenode_may_move_the_data_itself(proxying: LocalFileSystem) -> None:
    base = f"{proxying.http_url}/webhdfs/v1"
    data = os.urandom(1_500_000)
    url = f"{base}/f?op=CREATE&user.name=root&overwrite=true"
    request = urllib.request.Request(url, data=data, method="PUT")
    with urllib.request.urlopen(request, timeout=10) as response:
        assert response.status == 201
    url = f"{base}/f?op=APPEND&user.name=root"
    with urllib.request.urlopen(
        urllib.request.Request(url, data=b"end", method="POST"), timeout=10
    ) as response:
        assert response.status == 200
    with urllib.request.urlopen(f"{base}/f?op=OPEN&user.name=root", timeout=10) as response:
        assert response.url.startswith(base)
        assert response.read() == data + b"end"
