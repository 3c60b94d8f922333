"""HTTP that no WebHDFS client sends, on the ports of a NameNode and a DataNode: refused in words.

What concerns the bytes of HTTP alone is `tests/unit/runtime/test_web.py`'s.
"""

import getpass
import gzip
import os
import socket
import uuid
from collections.abc import Iterator
from urllib.parse import quote, unquote, urlsplit

import pytest
from tests.interop.hdfs.conftest import SETTINGS
from tests.interop.hdfs.web_calls import LOCATED, ODD_NAMES, TIMEOUT_S, Web, call, datanode_url

from headrace.testing.filesystem import LocalFileSystem

SUPERUSER = getpass.getuser()
MARKUP = "<img src=x onerror=alert(1)>&\"'"
GARBAGE = ["x", "", "KAAKaGFkb29w", "%00%ff", "../../etc", "<script>", "A" * 5000, "日本語"]


@pytest.fixture(scope="module")
def own() -> Iterator[LocalFileSystem]:
    with LocalFileSystem(datanodes=1, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def web(own: LocalFileSystem) -> Web:
    return Web(own.http_url, SUPERUSER)


@pytest.fixture
def folder(web: Web) -> str:
    """A folder that no other test uses."""
    path = f"/test-{uuid.uuid4().hex[:8]}"
    assert web.put(path, "MKDIRS").status == 200
    return path


@pytest.fixture
def private(web: Web, folder: str) -> str:
    path = f"{folder}/private"
    assert web.write(path, b"secret", permission="600").status == 201
    return path


@pytest.mark.parametrize("token", GARBAGE)
def test_a_token_that_nobody_issued_opens_nothing(
    own: LocalFileSystem, web: Web, private: str, token: str
) -> None:
    """Without security a token is not asked for: it is neither read nor passed on."""
    eve = Web(own.http_url, "eve")
    assert eve.get(private, "CHECKACCESS", fsaction="r--", delegation=token).refusal == (
        403,
        "AccessControlException",
    )
    assert eve.get(private, "OPEN", delegation=token).refusal == (403, "AccessControlException")
    at_datanode = Web(datanode_url(own), "eve").get(private, "OPEN", delegation=token)
    assert at_datanode.refusal == (403, "AccessControlException")
    redirect = web.get(private, "OPEN", delegation=token)
    assert redirect.status == 307
    assert "delegation" not in redirect.location
    assert web.read(private, delegation=token) == b"secret"
    for op in ("RENEWDELEGATIONTOKEN", "CANCELDELEGATIONTOKEN"):
        assert web.put("/", op, token=token).refusal == (400, "UnsupportedOperationException")


def test_a_packed_body_is_kept_as_it_came(web: Web, folder: str) -> None:
    packed = gzip.compress(bytes(20_000_000))
    url = web.put(f"{folder}/packed", "CREATE").location
    parts = urlsplit(url)
    head = (
        f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
        f"Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    )
    assert raw(url, head.encode() + packed).startswith(b"HTTP/1.1 201 ")
    assert web.read(f"{folder}/packed") == packed


def raw(url: str, data: bytes) -> bytes:
    """All that is answered to these bytes."""
    parts = urlsplit(url)
    address = (parts.hostname, parts.port)
    answer = b""
    with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
        connection.sendall(data)
        while part := connection.recv(65536):
            answer += part
    return answer


@pytest.mark.parametrize("door", ["NameNode", "DataNode"])
def test_a_url_of_sixty_four_kilobytes(own: LocalFileSystem, folder: str, door: str) -> None:
    base = own.http_url if door == "NameNode" else datanode_url(own)
    web = Web(base, SUPERUSER)
    too_long = f"GET /webhdfs/v1/{'x' * 66_000}?op=OPEN HTTP/1.1\r\nHost: h\r\n\r\n"
    assert raw(base, too_long.encode()).startswith(b"HTTP/1.1 431 ")
    for path in (f"{folder}/{'x' * 60_000}", folder + "/y" * 30_000):
        assert 400 <= web.get(path, "OPEN").status < 500
        if door == "NameNode":
            assert 400 <= web.put(path, "MKDIRS").status < 500
            assert 400 <= web.put(folder, "RENAME", destination=path).status < 500
        created = call(web.url(path, "CREATE"), "PUT", b"x")
        assert created.status == 307 or 400 <= created.status < 500
        if created.status == 307:
            assert 400 <= call(created.location, "PUT", b"x").status < 500
    assert Web(own.http_url, SUPERUSER).shown(folder, "GETCONTENTSUMMARY")["directoryCount"] == 1


def test_names_of_markup_are_shown_as_no_page(own: LocalFileSystem, web: Web, folder: str) -> None:
    """A browser that is led there sees JSON or plain text, and does not guess otherwise."""
    path = f"{folder}/{MARKUP}"
    assert web.write(path, os.urandom(10)).status == 201
    answers = {
        "a listing": web.get(folder, "LISTSTATUS"),
        "a status": web.get(path, "GETFILESTATUS"),
        "a refusal": web.get(f"{path}-not", "GETFILESTATUS"),
        "a refusal by a DataNode": Web(datanode_url(own), SUPERUSER).get(f"{path}-not", "OPEN"),
        "an unknown operation": web.get(path, MARKUP),
        "an unknown operation of a DataNode": Web(datanode_url(own), SUPERUSER).get(path, MARKUP),
        "fsck": call(f"{own.http_url}/fsck?ugi={SUPERUSER}&files=1&path={quote(folder)}"),
        "fsck's user": call(f"{own.http_url}/fsck?ugi={quote(MARKUP)}&path={quote(path)}"),
        "fsck of nothing": call(f"{own.http_url}/fsck?path=/{quote(MARKUP)}"),
        "no page": call(f"{own.http_url}/{quote(MARKUP)}"),
        "a file": call(web.get(path, "OPEN").location),
    }
    for name, answer in answers.items():
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in ("application/json", "text/plain", "application/octet-stream"), name
        assert answer.headers["x-content-type-options"] == "nosniff", name
        assert answer.status < 500, name
    assert answers["a listing"].json["FileStatuses"]["FileStatus"][0]["pathSuffix"] == MARKUP
    assert MARKUP.encode() in answers["fsck"].body


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_redirect_is_one_header(web: Web, name: str) -> None:
    answer = web.put(name, "CREATE", permission="644", doas="ann")
    assert answer.status == 307, answer
    assert (answer.body, set(answer.headers)) == (b"", LOCATED)
    assert answer.location.isascii()
    parts = urlsplit(answer.location)
    assert unquote(parts.path) == f"/webhdfs/v1{name}"
    assert "user.name=ann" in parts.query.split("&")
