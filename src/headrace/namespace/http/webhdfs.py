"""WebHDFS, the NameNode's half: /webhdfs/v1/PATH?op=… answered in JSON.

Owns: the tables of operations. Data (OPEN, CREATE, APPEND, GETFILECHECKSUM) is a DataNode's:
such a request is sent there by a redirect that carries its query and names this NameNode.
Spec: Hadoop 3.5's WebHDFS REST API. An operation has no client id: nothing is remembered for it.
Who may name somebody else in `doas` is `namespace.impersonation`'s.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.base.promise import Promise
from headrace.base.web import WEBHDFS_PREFIX, WebRequest, WebResponse
from headrace.namespace import requests as asked
from headrace.namespace.caller import Caller
from headrace.namespace.http import json_shapes as shapes
from headrace.namespace.http.operations import (
    TABLES,
    boolean,
    done,
    encode_value,
    parse_xattr,
    xattr_name,
)
from headrace.namespace.http.parameters import Parameters, invalid
from headrace.namespace.http.placing import DataPlaces
from headrace.namespace.http.snapshot_shapes import storage_policy
from headrace.namespace.impersonation import Impersonation
from headrace.namespace.namenode import NameNode
from headrace.namespace.ops.storage_policy import POLICIES
from headrace.namespace.paths import split
from headrace.namespace.rpc.asking import ask
from headrace.namespace.rpc.translation import Groups
from headrace.namespace.values import DirectoryListing, FileStatus, XAttr
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.web_users import web_user

MOVES_DATA = {
    ("GET", "OPEN"),
    ("GET", "GETFILECHECKSUM"),
    ("PUT", "CREATE"),
    ("POST", "APPEND"),
}


def _status(path: str) -> Callable[[FileStatus | None], WebResponse]:
    def show(status: FileStatus | None) -> WebResponse:
        if status is None:
            raise RemoteError(java.FILE_NOT_FOUND, f"File does not exist: {path}")
        return shapes.answer({"FileStatus": shapes.file_status(status, "")})

    return show


def _constant(value: dict[str, Any]) -> Callable[..., Promise[WebResponse]]:
    return lambda *_: Promise.resolved(shapes.answer(value))


class WebHdfs:
    """The page below /webhdfs/v1/."""

    def __init__(self, namenode: NameNode, groups: Groups, rpc_address: str) -> None:
        self._namenode = namenode
        self._groups = groups
        self._impersonation = Impersonation(namenode.ns, groups)
        self._places = DataPlaces(namenode, rpc_address)
        self._special: dict[tuple[str, str], Callable[..., Promise[WebResponse]]] = {
            ("GET", "GETFILESTATUS"): self._file_status,
            ("GET", "GETFILELINKSTATUS"): self._link_status,
            ("GET", "LISTSTATUS"): self._list_status,
            ("GET", "LISTSTATUS_BATCH"): self._list_batch,
            ("GET", "GETHOMEDIRECTORY"): self._home,
            ("GET", "GETTRASHROOT"): self._trash_root,
            ("GET", "GETTRASHROOTS"): self._trash_roots,
            ("GET", "GETALLSTORAGEPOLICY"): _constant(
                {
                    "BlockStoragePolicies": {
                        "BlockStoragePolicy": list(map(storage_policy, POLICIES))
                    }
                }
            ),
            ("GET", "GETECPOLICY"): self._no_ec_policy,
            ("GET", "GETECPOLICIES"): _constant(
                {"ErasureCodingPolicies": {"ErasureCodingPolicyInfo": []}}
            ),
            ("GET", "GETECCODECS"): _constant({"ErasureCodingCodecs": {}}),
            ("GET", "GETXATTRS"): self._get_xattrs,
            ("GET", "GETSERVERDEFAULTS"): self._server_defaults,
            ("GET", "GETSTATUS"): self._fs_status,
            ("GET", "GETDELEGATIONTOKEN"): self._no_token,
            ("PUT", "RENAME"): self._rename,
            ("POST", "TRUNCATE"): self._truncate,
        }

    def operations(self) -> set[tuple[str, str]]:
        """All that is served, by HTTP method and name."""
        one_question = {(method, name) for method, table in TABLES.items() for name in table}
        return one_question | set(self._special) | MOVES_DATA

    def __call__(self, request: WebRequest) -> WebResponse | Promise[WebResponse]:
        try:
            answer = self._answer(request)
        except RemoteError as error:
            return shapes.refusal(error)
        shown: Promise[WebResponse] = Promise()

        def on_settled(settled: Promise[WebResponse]) -> None:
            error = settled.error
            if error is None:
                shown.resolve(settled.value())
            elif isinstance(error, RemoteError):
                shown.resolve(shapes.refusal(error))
            else:
                shown.reject(error)

        answer.then(on_settled)
        return shown

    def _answer(self, request: WebRequest) -> Promise[WebResponse]:
        path = "/" + request.path[len(WEBHDFS_PREFIX) :]
        if len(path) > 1:
            path = path.rstrip("/")
        split(path)  # a URL with names that nobody could make is a mistake, whatever is asked
        parameters = Parameters(request)
        user, real_user = web_user(request.query)
        self._impersonation.require(real_user, user)
        caller = Caller(user, self._groups(user), b"", -1, request.address)
        operation = (request.method, parameters.required("op").upper())
        if operation in MOVES_DATA:
            return self._places.redirect(operation[1], path, request, parameters, caller)
        special = self._special.get(operation)
        if special is not None:
            return special(path, parameters, caller)
        table = TABLES.get(request.method, {})
        if operation[1] not in table:
            raise invalid(
                f'Invalid value for webhdfs parameter "op": no {operation[1]} with '
                f"HTTP method {request.method}"
            )
        ask_for, show = table[operation[1]]
        return ask(self._namenode, ask_for(path, parameters), caller).map(show)

    # -- what needs more than a question and an answer ---------------------------------------

    def _file_status(self, path: str, _: Parameters, caller: Caller) -> Promise[WebResponse]:
        return ask(self._namenode, asked.GetFileInfo(path), caller).map(_status(path))

    def _link_status(self, path: str, _: Parameters, caller: Caller) -> Promise[WebResponse]:
        return ask(self._namenode, asked.GetFileLinkInfo(path), caller).map(_status(path))

    def _list_status(self, path: str, _: Parameters, caller: Caller) -> Promise[WebResponse]:
        """All entries: parts of the listing are asked for one after the other."""
        whole: Promise[WebResponse] = Promise()
        found: list[dict[str, Any]] = []

        def on_part(settled: Promise[DirectoryListing | None]) -> None:
            if settled.error is not None:
                whole.reject(settled.error)
                return
            listing = settled.value()
            if listing is None:
                whole.reject(RemoteError(java.FILE_NOT_FOUND, f"File {path} does not exist."))
                return
            found.extend(shapes.file_status(entry) for entry in listing.entries)
            if listing.remaining_count and listing.entries:
                # In another turn: others are served between the parts of a long listing.
                start_after = listing.entries[-1].path.encode()
                self._namenode.timers.call_soon(partial(next_part, start_after))
            else:
                whole.resolve(shapes.answer({"FileStatuses": {"FileStatus": found}}))

        def next_part(start_after: bytes) -> None:
            ask(self._namenode, asked.GetListing(path, start_after), caller).then(on_part)

        next_part(b"")
        return whole

    def _list_batch(self, path: str, p: Parameters, caller: Caller) -> Promise[WebResponse]:
        def show(listing: DirectoryListing | None) -> WebResponse:
            if listing is None:
                raise RemoteError(java.FILE_NOT_FOUND, f"File {path} does not exist.")
            entries = [shapes.file_status(entry) for entry in listing.entries]
            return shapes.answer(
                {
                    "DirectoryListing": {
                        "partialListing": {"FileStatuses": {"FileStatus": entries}},
                        "remainingEntries": listing.remaining_count,
                    }
                }
            )

        request = asked.GetListing(path, p.text("startafter").encode())
        return ask(self._namenode, request, caller).map(show)

    def _home(self, _: str, __: Parameters, caller: Caller) -> Promise[WebResponse]:
        return Promise.resolved(shapes.answer({"Path": f"/user/{caller.user}"}))

    def _trash_root(self, _: str, __: Parameters, caller: Caller) -> Promise[WebResponse]:
        return Promise.resolved(shapes.answer({"Path": f"/user/{caller.user}/.Trash"}))

    def _trash_roots(self, _: str, p: Parameters, caller: Caller) -> Promise[WebResponse]:
        """Those that are there: the caller's, or with `allusers` everybody's that he may see."""
        answer: Promise[WebResponse] = Promise()

        def look(users: list[str]) -> None:
            found: dict[str, dict[str, Any]] = {}
            left = len(users)

            def on_status(path: str, settled: Promise[FileStatus | None]) -> None:
                nonlocal left
                left -= 1
                # One that may not be looked at is none of the caller's.
                status = None if settled.error is not None else settled.value()
                if status is not None:
                    found[path] = {**shapes.file_status(status, ""), "path": path}
                if left == 0:
                    answer.resolve(shapes.answer({"Paths": list(found.values()) or None}))

            for user in users:
                path = f"/user/{user}/.Trash"
                promise = ask(self._namenode, asked.GetFileInfo(path), caller)
                promise.then(partial(on_status, path))
            if not users:
                answer.resolve(shapes.answer({"Paths": None}))

        def on_listed(settled: Promise[DirectoryListing | None]) -> None:
            listing = None if settled.error is not None else settled.value()
            look([] if listing is None else [entry.path for entry in listing.entries])

        if p.flag("allusers", False):
            ask(self._namenode, asked.GetListing("/user", b""), caller).then(on_listed)
        else:
            look([caller.user])
        return answer

    def _no_ec_policy(self, path: str, _: Parameters, caller: Caller) -> Promise[WebResponse]:
        """Of what exists: none."""

        def show(status: FileStatus | None) -> WebResponse:
            _status(path)(status)
            return shapes.answer(None)

        return ask(self._namenode, asked.GetFileInfo(path), caller).map(show)

    def _no_token(self, _: str, __: Parameters, ___: Caller) -> Promise[WebResponse]:
        return Promise.resolved(shapes.answer({"Token": None}))

    def _get_xattrs(self, path: str, p: Parameters, caller: Caller) -> Promise[WebResponse]:
        names = tuple(parse_xattr(name) for name in p.all("xattr.name"))
        encoding = p.text("encoding", "hex")

        def show(found: tuple[XAttr, ...]) -> WebResponse:
            return shapes.answer(
                {
                    "XAttrs": [
                        {"name": xattr_name(one), "value": encode_value(one.value, encoding)}
                        for one in found
                    ]
                }
            )

        return ask(self._namenode, asked.GetXAttrs(path, names), caller).map(show)

    def _server_defaults(self, _: str, __: Parameters, ___: Caller) -> Promise[WebResponse]:
        settings = self._namenode.settings
        return Promise.resolved(
            shapes.answer(
                {
                    "FsServerDefaults": {
                        "blockSize": settings.block_size,
                        "bytesPerChecksum": settings.bytes_per_checksum,
                        "checksumType": 2,
                        "defaultStoragePolicyId": 7,
                        "encryptDataTransfer": False,
                        "fileBufferSize": 4096,
                        "keyProviderUri": "",
                        "replication": settings.replication,
                        "trashInterval": settings.trash_interval_min,
                        "writePacketSize": 65536,
                    }
                }
            )
        )

    def _fs_status(self, _: str, __: Parameters, ___: Caller) -> Promise[WebResponse]:
        stats = self._namenode.fs_stats()
        return Promise.resolved(
            shapes.answer(
                {
                    "FsStatus": {
                        "used": stats.used,
                        "remaining": stats.remaining,
                        "capacity": stats.capacity,
                    }
                }
            )
        )

    def _rename(self, path: str, p: Parameters, caller: Caller) -> Promise[WebResponse]:
        destination = p.required("destination")
        if not p.text("renameoptions"):
            request: Any = asked.Rename(path, destination)
            return ask(self._namenode, request, caller).map(boolean)
        options = set(p.text("renameoptions").upper().split(","))
        if unknown := options - {"NONE", "OVERWRITE", "TO_TRASH"}:
            raise invalid(
                'Invalid value for webhdfs parameter "renameoptions": No enum constant '
                f"org.apache.hadoop.fs.Options.Rename.{min(unknown)[:40]}"
            )
        request = asked.Rename2(path, destination, "OVERWRITE" in options, "TO_TRASH" in options)
        return ask(self._namenode, request, caller).map(done)

    def _truncate(self, path: str, p: Parameters, caller: Caller) -> Promise[WebResponse]:
        # A writer of its own: one that cuts meanwhile is somebody else.
        writer = f"DFSClient_{self._namenode.random.getrandbits(63)}"
        request = asked.Truncate(path, p.number("newlength", -1), writer)
        return ask(self._namenode, request, caller).map(boolean)
