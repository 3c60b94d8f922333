"""Who a WebHDFS request is from, on the port that moves data, and what of it gets into a header.

The NameNode's own half decides at its page; a DataNode, and a NameNode that proxies, must come to
the same answer.
"""

import getpass
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

import pytest
from tests.interop.hdfs.conftest import SETTINGS
from tests.interop.hdfs.web_calls import LOCATED, ODD_NAMES, Answer, Web, call, datanode_url

from headrace.testing.filesystem import LocalFileSystem

SUPERUSER = getpass.getuser()


@pytest.fixture(scope="module")
def proxying() -> Iterator[LocalFileSystem]:
    """Its NameNode moves data itself; its DataNode does so as every DataNode does."""
    settings = {**SETTINGS, "headrace.webhdfs.proxy": "true"}
    with LocalFileSystem(datanodes=1, settings=settings) as running:
        yield running


@pytest.fixture(params=["NameNode", "DataNode"])
def door(request: pytest.FixtureRequest, proxying: LocalFileSystem) -> str:
    """Where data is moved."""
    return proxying.http_url if request.param == "NameNode" else datanode_url(proxying)


@pytest.fixture
def private(proxying: LocalFileSystem) -> str:
    """A file that the superuser and ann may read."""
    web = Web(proxying.http_url, SUPERUSER)
    url = web.url("/private", "CREATE", overwrite="true", permission="600")
    assert call(url, "PUT", b"secret").status == 201
    web.done(web.put("/private", "SETOWNER", owner="ann"))
    web.put("/ann", "MKDIRS")
    web.done(web.put("/ann", "SETOWNER", owner="ann"))
    return "/private"


def data_calls(door: str, path: str, user: str, **parameters: str) -> dict[str, Answer]:
    web = Web(door, user)
    folder = "/ann/made"
    return {
        "OPEN": web.get(path, "OPEN", **parameters),
        "GETFILECHECKSUM": web.get(path, "GETFILECHECKSUM", **parameters),
        "APPEND": call(web.url(path, "APPEND", **parameters), "POST", b"+"),
        "CREATE": call(web.url(folder, "CREATE", overwrite="true", **parameters), "PUT", b"x"),
    }


def test_a_superuser_acts_for_somebody_else(door: str, private: str) -> None:
    for op, answer in data_calls(door, private, SUPERUSER, doas="ann").items():
        assert answer.status in (200, 201), (op, answer)
    made = Web(door, SUPERUSER)
    assert made.read("/ann/made", doas="ann") == b"x"
    for op, answer in data_calls(door, private, SUPERUSER, doas="eve").items():
        assert answer.refusal == (403, "AccessControlException"), op


def test_nobody_else_does(proxying: LocalFileSystem, door: str, private: str) -> None:
    for user, wanted in (("eve", SUPERUSER), ("eve", "ann"), ("ann", SUPERUSER)):
        for op, answer in data_calls(door, private, user, doas=wanted).items():
            assert answer.refusal == (403, "AuthorizationException"), (op, answer)
            message = answer.json["RemoteException"]["message"]
            assert message == f"User: {user} is not allowed to impersonate {wanted}", op
    assert Web(proxying.http_url, SUPERUSER).read(private) == b"secret"


def test_everybody_acts_for_himself(door: str, private: str) -> None:
    assert Web(door, "ann").read(private, doas="ann") == b"secret"
    assert Web(door, "ann").read(private) == b"secret"
    assert Web(door, "eve").get(private, "OPEN").refusal == (403, "AccessControlException")


@pytest.mark.parametrize("name", ["../x", "a b", "<script>", "a\r\nb", "9a", "x" * 5 + "/y"])
@pytest.mark.parametrize("parameter", ["user_name", "doas"])
def test_a_name_that_nobody_has_is_refused(
    door: str, private: str, parameter: str, name: str
) -> None:
    for op, answer in data_calls(door, private, SUPERUSER, **{parameter: name}).items():
        assert answer.refusal == (400, "IllegalArgumentException"), (op, answer)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_what_was_made_is_told_as_a_url(proxying: LocalFileSystem, door: str, name: str) -> None:
    web = Web(door, SUPERUSER)
    answer = call(web.url(name, "CREATE", overwrite="true"), "PUT", b"x")
    assert answer.status == 201, answer
    assert (answer.body, set(answer.headers)) == (b"", LOCATED)
    assert answer.location.startswith(f"{proxying.url}/")
    assert answer.location.isascii()
    assert path_of(answer.location) == name
    assert web.read(name) == b"x"


def path_of(url: str) -> str:
    parts = urlsplit(url)
    assert not parts.query
    assert not parts.fragment
    return unquote(parts.path)
