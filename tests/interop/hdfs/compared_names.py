"""Two NameNodes that get the same calls, and what their answers come to once blotted.

Owns: the connections of all users, what is blotted out of answers (times that no call has set,
inode ids, which are numbered in the order of their appearance, block names), the walk over a whole
tree, and the way back to an empty one. Must not know: which calls are made.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.message import Message
from tests.interop.hdfs.known_names import Blotted, known, was_modified_later
from tests.interop.hdfs.random_names import SUPERUSER, USERS, Call

from headrace.client.hadoop_rpc import BlockingRpcClient, RpcConnectionError
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import acl_pb2 as acl
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import xattr_pb2 as xattr

_NOW_MS = 10**12
_TIMES = ("modification_time", "access_time", "atime", "mtime")
_UNORDERED = ("diffReportEntries",)
"""Of a report that goes back in time, ours has the lines in another order."""
_PATHS_MAX = 10_000
_SNAPSHOT_ENABLED = 8
LOOKED_EVERY = 25
"""Calls between two walks over the trees."""


class Side:
    """One NameNode, asked by several users."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._clients = {user: BlockingRpcClient(host, int(port), user) for user in USERS}
        self._ids: dict[int, int] = {}
        self._snapshot_ids: dict[int, int] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def ask(self, call: Call) -> tuple[Blotted, str]:
        """What is compared of the answer, and the words of a refusal."""
        try:
            answer = self._clients[call.user].call(call.method, call.request)
        except RemoteError as refusal:
            return ("refused", refusal.class_name), refusal.message.partition("\n")[0]
        except RpcConnectionError as error:
            return ("not answered",), str(error)
        return ("answered", *self._lines(answer, "")), ""

    def _lines(self, message: Message, prefix: str) -> Iterator[str]:
        for field in message.DESCRIPTOR.fields:
            value = getattr(message, field.name)
            name = f"{prefix}{field.name}"
            if field.is_repeated:
                values = list(value)
                if field.name in _UNORDERED:
                    values.sort(key=lambda one: one.SerializeToString())
                yield f"{name} x {len(values)}"
                for index, one in enumerate(values):
                    yield from self._value(field, one, f"{name}[{index}]")
            elif not field.has_presence or message.HasField(field.name) or field.has_default_value:
                yield from self._value(field, value, name)

    def _value(self, field: Any, value: Any, name: str) -> Iterator[str]:
        if field.message_type is not None:
            yield from self._lines(value, f"{name}.")
            return
        if field.name in _TIMES and value > _NOW_MS:
            value = "now"
        elif field.name in ("fileId", "dirId") and value:
            value = f"inode {self._ids.setdefault(value, len(self._ids))}"
        elif field.name == "snapshotID":
            value = f"snapshot {self._snapshot_ids.setdefault(value, len(self._snapshot_ids))}"
        elif field.name in ("id",):
            value = "id"
        elif field.name == "storagePolicy":
            # HOT and no policy are the same; ours are not told of what is above.
            value = "HOT" if value in (0, 7) else value
        yield f"{name} = {value!r}"

    # -- the whole tree ---------------------------------------------------------------------------

    def call(self, method: str, request: Message) -> Any:
        return self._clients[SUPERUSER].call(method, request)

    def tree(self, *, sums: bool) -> list[tuple[str, Blotted]]:
        """Everything that the superuser can see, directory by directory."""
        found: list[tuple[str, Blotted]] = []
        waiting = ["/"]
        for _ in range(_PATHS_MAX):
            if not waiting:
                break
            path = waiting.pop()
            for call in _asked_of(path, sums):
                found.append((str(call), self.ask(call)[0]))
            listed = self._names(path)
            waiting += [f"{path.rstrip('/')}/{name}" for name in listed]
        for call in _asked_of_all():
            found.append((str(call), self.ask(call)[0]))
        return found

    def _names(self, path: str) -> list[str]:
        request = pb.GetListingRequestProto(src=path, startAfter=b"", needLocation=False)
        with contextlib.suppress(RemoteError):
            listed = self.call("getListing", request).dirList.partialListing
            if [one.path for one in listed] == [b""]:
                return []
            names = [one.path.decode() for one in listed]
            info = self.call("getFileInfo", pb.GetFileInfoRequestProto(src=path))
            if info.fs.flags & _SNAPSHOT_ENABLED and "/.snapshot" not in path:
                names.append(".snapshot")
            return names
        return []

    def mode(self, path: str) -> int | None:
        """Of what is there."""
        with contextlib.suppress(RemoteError):
            answer = self.call("getFileInfo", pb.GetFileInfoRequestProto(src=path))
            if answer.HasField("fs"):
                return int(answer.fs.permission.perm)
        return None

    def empty(self) -> None:
        """Take everything away, and give the root back what a new file system has."""
        listing = self.call(
            "getSnapshottableDirListing", pb.GetSnapshottableDirListingRequestProto()
        )
        for one in listing.snapshottableDirList.snapshottableDirListing:
            root = f"{one.parent_fullpath.decode().rstrip('/')}/{one.dirStatus.path.decode()}"
            request = pb.GetSnapshotListingRequestProto(snapshotRoot=root)
            kept = self.call("getSnapshotListing", request).snapshotList.snapshotListing
            for snapshot in kept:
                self.call(
                    "deleteSnapshot",
                    pb.DeleteSnapshotRequestProto(
                        snapshotRoot=root, snapshotName=snapshot.dirStatus.path.decode()
                    ),
                )
            self.call("disallowSnapshot", pb.DisallowSnapshotRequestProto(snapshotRoot=root))
        for name in self._names("/"):
            if name == ".snapshot":
                continue
            self.call("delete", pb.DeleteRequestProto(src=f"/{name}", recursive=True))
        self.call("removeAcl", acl.RemoveAclRequestProto(src="/"))
        mode = acl.FsPermissionProto(perm=0o777)
        self.call("setPermission", pb.SetPermissionRequestProto(src="/", permission=mode))
        owner = pb.SetOwnerRequestProto(src="/", username=SUPERUSER, groupname="supergroup")
        self.call("setOwner", owner)
        self.call(
            "setQuota",
            pb.SetQuotaRequestProto(
                path="/", namespaceQuota=2**63 - 2, storagespaceQuota=2**64 - 1
            ),
        )
        root = "/.reserved/raw"
        for found in self.call("getXAttrs", xattr.GetXAttrsRequestProto(src=root)).xAttrs:
            self.call("removeXAttr", xattr.RemoveXAttrRequestProto(src=root, xAttr=found))
        self.call("setTimes", pb.SetTimesRequestProto(src="/", mtime=0, atime=0))
        self.call("unsetStoragePolicy", pb.UnsetStoragePolicyRequestProto(src="/"))
        pools = self.call("listCachePools", pb.ListCachePoolsRequestProto(prevPoolName=""))
        for pool in pools.entries:
            request = pb.RemoveCachePoolRequestProto(poolName=pool.info.poolName)
            self.call("removeCachePool", request)
        self._ids.clear()
        self._snapshot_ids.clear()


def _asked_of(path: str, sums: bool) -> list[Call]:
    requests: list[tuple[str, Message]] = [
        ("getFileInfo", pb.GetFileInfoRequestProto(src=path)),
        (
            "getListing",
            pb.GetListingRequestProto(src=path, startAfter=b"", needLocation=False),
        ),
        ("getAclStatus", acl.GetAclStatusRequestProto(src=path)),
        ("getXAttrs", xattr.GetXAttrsRequestProto(src=path)),
    ]
    if sums:
        requests.append(("getQuotaUsage", pb.GetQuotaUsageRequestProto(path=path)))
        requests.append(("getContentSummary", pb.GetContentSummaryRequestProto(path=path)))
    return [Call(SUPERUSER, method, request) for method, request in requests]


def _asked_of_all() -> list[Call]:
    return [
        Call(SUPERUSER, "getSnapshottableDirListing", pb.GetSnapshottableDirListingRequestProto()),
        Call(SUPERUSER, "listCachePools", pb.ListCachePoolsRequestProto(prevPoolName="")),
    ]


def blot_words(words: str) -> str:
    return re.sub(r"127\.0\.0\.1(:\d+)?", "ADDRESS", words)


class Pair:
    """Ours and Apache's."""

    def __init__(self, ours: Side, its: Side) -> None:
        self.ours = ours
        self.its = its
        self.sums = True
        """Compare quota usage and content summaries too: where no snapshot was made."""
        self.words: dict[tuple[str, str, str], Call] = {}
        """Refusals of one class in other words, each with a call that showed it."""

    def close(self) -> None:
        self.ours.close()
        self.its.close()

    def first_difference(
        self, calls: Sequence[Call], looked_every: int = LOOKED_EVERY
    ) -> tuple[int, str] | None:
        """The index of the call that is answered otherwise, or after which the trees differ."""
        self.ours.empty()
        self.its.empty()
        for index, call in enumerate(calls):
            mine, my_words = self.ours.ask(call)
            other, its_words = self.its.ask(call)
            if mine != other:
                rule = known(call, mine, other)
                if rule is None:
                    return index, _shown(call, mine, other, my_words, its_words)
                if rule.parts:
                    return None
            if mine[0] == "refused" and call.method in ("mkdirs", "create"):
                self.follow(call)
            self._note_words(call, mine, other, my_words, its_words)
            if (index + 1) % looked_every == 0 or index == len(calls) - 1:
                found = self.tree_difference()
                if found:
                    return index, found
        return None

    def _note_words(
        self, call: Call, mine: Blotted, other: Blotted, my_words: str, its_words: str
    ) -> None:
        my_words, its_words = blot_words(my_words), blot_words(its_words)
        if mine[0] == "refused" == other[0] and my_words != its_words:
            self.words.setdefault((call.method, my_words, its_words), call)

    def follow(self, call: Call) -> None:
        """Apache's NameNode makes parents one by one and leaves them when it refuses the next;
        ours makes all or none. What was left is made here too, and the comparison goes on."""
        request: Any = call.request
        names = [name for name in request.src.split("/") if name]
        left, above = "", self.ours.mode("/") or 0
        for count in range(1, len(names)):
            path = "/" + "/".join(names[:count])
            if self.its.mode(path) is None:
                break
            mode = self.ours.mode(path)
            if mode is None:
                left = path
            else:
                above = mode
        is_lost = call.method == "create" and self.its.mode(request.src) is None
        if is_lost and self.ours.mode(request.src) is not None:
            # It also deletes what is to be overwritten before it sees that a quota is exceeded.
            self.ours.call("delete", pb.DeleteRequestProto(src=request.src, recursive=False))
        if not left:
            return
        made = pb.MkdirsRequestProto(src=left, createParent=True)
        mode = request.masked.perm if call.method == "mkdirs" else above
        made.masked.perm = (mode | 0o300) & 0o777
        if call.method == "mkdirs" and request.HasField("unmasked"):
            made.unmasked.CopyFrom(request.unmasked)
        self.ours.ask(Call(call.user, "mkdirs", made))

    def tree_difference(self) -> str:
        mine, other = self.ours.tree(sums=self.sums), self.its.tree(sums=self.sums)
        for (call, my_answer), (its_call, its_answer) in zip(mine, other, strict=False):
            if call != its_call:
                return f"the trees differ: {call} and {its_call}"
            if my_answer != its_answer and not was_modified_later(call, my_answer, its_answer):
                return "the trees differ: " + _shown(call, my_answer, its_answer, "", "")
        if len(mine) != len(other):
            return f"the trees differ: {len(mine)} and {len(other)} answers"
        return ""

    def shrunk(self, calls: Sequence[Call]) -> tuple[list[Call], str]:
        """Fewer calls that still end in a difference."""
        found = self.first_difference(calls)
        assert found is not None, "the same calls did not differ again"
        left, text = list(calls[: found[0] + 1]), found[1]
        size = len(left) // 2
        while size:
            place = 0
            while place < len(left):
                fewer = left[:place] + left[place + size :]
                again = self.first_difference(fewer, len(fewer)) if fewer else None
                if again is not None:
                    left, text = fewer[: again[0] + 1], again[1]
                else:
                    place += size
            size //= 2
        return left, text


def _shown(call: Any, mine: Blotted, other: Blotted, my_words: str, its_words: str) -> str:
    only_mine = [line for line in mine if line not in other]
    only_other = [line for line in other if line not in mine]
    if not only_mine and not only_other:
        only_mine, only_other = list(mine), list(other)
    return f"{call}\n  ours:   {only_mine} {my_words}\n  apache: {only_other} {its_words}"
