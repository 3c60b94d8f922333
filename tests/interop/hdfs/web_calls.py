"""WebHDFS by plain HTTP: one call, what is answered, and no redirect followed unasked."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from headrace.testing.filesystem import LocalFileSystem

TIMEOUT_S = 15.0
ODD_NAMES = [
    *("/a\r\n\r\n<html>", "/a\r\nX", "/a\rb", "/a\nb"),
    *("/日本語", "/é", "/a b?c#d%e", "/x+y&z=1;2,3@4$5!'()*~"),
]
"""Paths of which some letters mean something to HTTP."""
LOCATED = {"content-type", "content-length", "location", "x-content-type-options"}
"""The headers of an answer that tells where something is."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def refusal(self) -> tuple[int, str]:
        """The status and Java's name of the exception."""
        return self.status, self.json["RemoteException"]["exception"]

    @property
    def location(self) -> str:
        return self.headers["location"]


def call(url: str, method: str = "GET", body: bytes | None = None) -> Answer:
    """One request, sent as it is."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=TIMEOUT_S)
    try:
        target = parts.path + ("?" + parts.query if parts.query else "")
        connection.request(method, target, body)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())
    finally:
        connection.close()


class Web:
    """WebHDFS of one NameNode, as one user unless another is named."""

    def __init__(self, http_url: str, user: str) -> None:
        self._base = f"{http_url}/webhdfs/v1"
        self._user = user

    def url(self, path: str, op: str, **parameters: str | int) -> str:
        query = {"op": op, "user.name": self._user}
        query |= {name.replace("_", "."): str(value) for name, value in parameters.items()}
        return f"{self._base}{quote(path)}?{urlencode(query)}"

    def get(self, path: str, op: str, **parameters: str | int) -> Answer:
        return call(self.url(path, op, **parameters))

    def put(self, path: str, op: str, **parameters: str | int) -> Answer:
        return call(self.url(path, op, **parameters), "PUT")

    def post(self, path: str, op: str, **parameters: str | int) -> Answer:
        return call(self.url(path, op, **parameters), "POST")

    def shown(self, path: str, op: str, **parameters: str | int) -> Any:
        """What a question that must be answered is answered, below its one name."""
        answer = self.get(path, op, **parameters)
        assert answer.status == 200, answer
        (value,) = answer.json.values()
        return value

    def done(self, answer: Answer) -> None:
        assert answer.status == 200, answer

    def write(self, path: str, data: bytes, **parameters: str | int) -> Answer:
        """CREATE, at the node that the NameNode sends us to."""
        return self._sent("PUT", "CREATE", path, data, parameters)

    def append(self, path: str, data: bytes, **parameters: str | int) -> Answer:
        return self._sent("POST", "APPEND", path, data, parameters)

    def _sent(
        self, method: str, op: str, path: str, data: bytes, parameters: dict[str, str | int]
    ) -> Answer:
        answer = call(self.url(path, op, **parameters), method)
        assert answer.status == 307, answer
        return call(answer.location, method, data)

    def read(self, path: str, **parameters: str | int) -> bytes:
        answer = self.get(path, "OPEN", **parameters)
        if answer.status == 307:
            answer = call(answer.location)
        assert answer.status == 200, answer
        return answer.body


def datanode_url(dfs: LocalFileSystem) -> str:
    return f"http://{dfs.datanodes[0].where['http']}"
