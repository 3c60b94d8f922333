"""How a method of a protocol becomes a request of the namespace, and its result an answer.

Owns: the shape of the tables in this package, and who a caller is.
Must not know: any method.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from google.protobuf.message import Message

from headrace.namespace.caller import Caller
from headrace.namespace.namenode import NameNode
from headrace.namespace.permissions import require_superuser
from headrace.namespace.rpc.asking import ask, read_of
from headrace.wire.hadoop.rpc_session import Handler, Later, RpcCall

Groups = Callable[[str], tuple[str, ...]]
"""The groups of a user."""


class Translation(NamedTuple):
    """How a method's message becomes a request, and the result its response."""

    request: Callable[[Any], Any]
    response: Callable[[Any], Message | bytes]
    """A message, or one that is encoded already."""


class Callers:
    """Makes callers of calls. A real user acts as the user he names: the opening saw to it."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def of(self, call: RpcCall) -> Caller:
        return Caller(
            call.user, self._groups(call.user), call.client_id, call.call_id, call.address
        )


def for_superusers(
    namenode: NameNode,
    callers: Callers,
    answers: Mapping[str, Handler],
    operations: Mapping[str, str] | None = None,
) -> dict[str, Handler]:
    """The same methods, refused to all others. A refusal names the operation, which is the method
    where `operations` has no other word for it."""
    words = operations or {}

    def guarded(answer: Handler, operation: str) -> Handler:
        def handle(message: Any, call: RpcCall) -> Any:
            require_superuser(namenode.ns, callers.of(call), operation)
            return answer(message, call)

        return handle

    return {name: guarded(answer, words.get(name, name)) for name, answer in answers.items()}


def handlers(
    namenode: NameNode, callers: Callers, translations: Mapping[str, Translation]
) -> dict[str, Handler]:
    return {
        name: _handler(namenode, callers, translation) for name, translation in translations.items()
    }


def _handler(namenode: NameNode, callers: Callers, translation: Translation) -> Handler:
    request_of, response_of = translation
    caller_of = callers.of
    clock = namenode.clock
    journal = namenode.journal
    ns = namenode.ns

    def handle(message: Any, call: RpcCall) -> Message | bytes | Later:
        request = request_of(message)
        caller = caller_of(call)
        read = read_of(type(request))
        if read is not None and ns.last_offset < journal.high_watermark and not journal.failure:
            return response_of(read(ns, request, caller, clock.now_ms()))
        return Later(ask(namenode, request, caller), response_of)

    return handle
