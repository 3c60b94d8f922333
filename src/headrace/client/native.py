"""hdfs-native as our commands, the pipeline and `headrace.fs` open it.

Owns: the settings that it gets from us, and a client for people: one that says at once when no
NameNode answers (by itself hdfs-native tries for minutes), and whose failures are Python's own
exceptions. Must not know: what it is used for.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from headrace.client.hadoop_rpc import RpcConnectionError
from headrace.client.namenode import NameNodeClient
from headrace.client.refusals import told_as_oserror
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    import hdfs_native

SETTINGS: Final = {"dfs.client.block.write.replace-datanode-on-failure.best-effort": "true"}
"""A writer goes on with the DataNodes that are left. By default hdfs-native (0.14.7) gives up where
nobody can stand in for one that died, as with three replicas on three DataNodes, Apache's too."""

_OPENING = ("read", "create", "append")

ANSWER_TIMEOUT_MS = 5_000
"""How long a NameNode may take for its first answer: people wait for it."""


def native_client(url: str) -> "hdfs_native.Client":
    import hdfs_native

    return hdfs_native.Client(url, SETTINGS)


def telling_client(url: str) -> "hdfs_native.Client":
    """The same for people. The NameNode is asked for at the first call, not before."""
    return telling(native_client(url), url)


def telling(client: "hdfs_native.Client", url: str) -> "hdfs_native.Client":
    inner: Any = _TellingClient(client.inner, url)
    client.inner = inner
    return client


def require_answer(url: str) -> None:
    """RpcConnectionError in a few seconds where no NameNode is active."""
    with NameNodeClient(url, timeout_ms=ANSWER_TIMEOUT_MS, attempts=1) as namenode:
        try:
            namenode.block_size()
        except RemoteError as refusal:
            # Any other refusal is an answer: what it is about is told by the call itself.
            if refusal.class_name == java.STANDBY:
                raise RpcConnectionError(
                    f"{namenode.where} is a standby: {refusal.message}"
                ) from None


class _TellingClient:
    """In the place of hdfs-native's raw client: every method's first argument is a path."""

    def __init__(self, raw: Any, url: str) -> None:
        self._raw = raw
        self._url = url
        self._has_answered = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._raw, name)

        def call(path: str, *arguments: Any) -> Any:
            with told_as_oserror(path):
                if not self._has_answered:
                    with told_as_oserror():
                        require_answer(self._url)
                    self._has_answered = True
                answer = method(path, *arguments)
                return _TellingFile(answer, path) if name in _OPENING else _telling(answer, path)

        return call


class _TellingFile:
    """In the place of its raw readers and writers."""

    def __init__(self, raw: Any, path: str) -> None:
        self._raw = raw
        self._path = path

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._raw, name)

        def call(*arguments: Any) -> Any:
            with told_as_oserror(self._path):
                return _telling(method(*arguments), self._path)

        return call


def _telling(answer: Any, path: str) -> Any:
    return _telling_iterator(answer, path) if hasattr(answer, "__next__") else answer


def _telling_iterator(answers: Iterator[Any], path: str) -> Iterator[Any]:
    with told_as_oserror(path):
        yield from answers
