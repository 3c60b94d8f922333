"""The end of a file that is being written: from any DataNode that has it, or a clear error."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from headrace.client.open_end import OpenEnd


class DataNode(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if "recovered" in asked.path:
            status, text = 403, '{"RemoteException": {"message": "Cannot obtain its length"}}'
        else:
            told = {name: values[0] for name, values in parse_qs(asked.query).items()}
            status, text = 200, f"{asked.path} {told['offset']} {told['user.name']}"
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def datanode() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), DataNode)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def gone() -> str:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{closed.getsockname()[1]}"


def end(path: str, *nodes: str) -> OpenEnd:
    return OpenEnd(path, 7, nodes, "127.0.0.1:8020", "anna")


def test_the_next_datanode_is_asked_where_one_is_gone(datanode: str, gone: str) -> None:
    found = b"".join(end("/a b", gone, datanode).read(9))
    assert found == b"/webhdfs/v1/a%20b 9 anna"


def test_nobody_gives_its_bytes(datanode: str, gone: str) -> None:
    with pytest.raises(
        OSError, match=r"try again in a moment .*: Cannot obtain its length\)"
    ) as told:
        list(end("/recovered", gone, datanode).read(7))
    assert told.value.filename == "/recovered"
    with pytest.raises(OSError, match="no DataNode gives its bytes"):
        list(end("/x").read(7))
    with pytest.raises(OSError, match=rf"again in a moment \({gone}: connection refused\)"):
        list(end("/x", gone).read(7))


def test_where_no_block_is_begun_there_is_nothing() -> None:
    assert list(OpenEnd("/x", 0, None, "127.0.0.1:8020", "anna").read(0)) == []
