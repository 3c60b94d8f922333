"""Where WebHDFS data is to be had: the redirect of a request to a DataNode's HTTP port.

OPEN and GETFILECHECKSUM go to a DataNode that holds the block, CREATE and APPEND to any live
one. The redirect carries the request's own query, names the user (him that `doas` names, if he may
be acted for) and this NameNode's RPC address, whatever the request says of them; a delegation token
is left behind, as nobody here asks for one. With `noredirect=true` the address is the answer.
"""

from urllib.parse import quote, urlencode

from headrace.base.promise import Promise
from headrace.base.web import WebRequest, WebResponse
from headrace.namespace import requests as asked
from headrace.namespace.caller import Caller
from headrace.namespace.datanodes import DatanodeDescriptor
from headrace.namespace.http import json_shapes as shapes
from headrace.namespace.http.parameters import Parameters, invalid
from headrace.namespace.namenode import NameNode
from headrace.namespace.rpc.asking import ask
from headrace.namespace.values import LocatedBlocks
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError


class DataPlaces:
    def __init__(self, namenode: NameNode, rpc_address: str) -> None:
        self._namenode = namenode
        self._rpc_address = rpc_address

    def redirect(
        self,
        operation: str,
        path: str,
        request: WebRequest,
        parameters: Parameters,
        caller: Caller,
    ) -> Promise[WebResponse]:
        def answer(node: DatanodeDescriptor) -> WebResponse:
            location = self._location(node, path, request, caller)
            if parameters.flag("noredirect", False):
                return shapes.answer({"Location": location})
            return WebResponse(307, headers={"Location": location})

        if operation == "CREATE":
            return Promise.resolved(answer(self._any(request.address)))
        if operation == "APPEND":
            return ask(self._namenode, asked.GetBlockLocations(path, 0, 0), caller).map(
                lambda _: answer(self._any(request.address))
            )
        offset = parameters.number("offset", 0)
        if offset < 0:
            raise invalid(f"Invalid parameter range: offset = {offset} < 0")
        return ask(self._namenode, asked.GetBlockLocations(path, offset, 1), caller).map(
            lambda located: answer(self._holder(located, offset, operation, request.address))
        )

    def _any(self, address: str) -> DatanodeDescriptor:
        serving = self._namenode.datanodes.serving()
        if not serving:
            raise RemoteError(java.IO, "Failed to find datanode, suggest to check cluster health.")
        for node in serving:
            if node.identity.ip_address == address:
                return node
        return min(serving, key=lambda node: node.xceiver_count)

    def _holder(
        self, located: LocatedBlocks, offset: int, operation: str, address: str
    ) -> DatanodeDescriptor:
        length = located.file_length
        if located.last_block is not None and not located.is_last_block_complete:
            length += located.last_block.block.num_bytes
        if operation == "OPEN" and offset > 0 and offset >= length:
            raise RemoteError(java.IO, f"Offset={offset} out of the range [0, {length}); OPEN")
        for block in located.blocks:
            if block.locations:
                return block.locations[0].datanode
        return self._any(address)

    def _location(
        self, node: DatanodeDescriptor, path: str, request: WebRequest, caller: Caller
    ) -> str:
        identity = node.identity
        left_out = ("noredirect", "user.name", "doas", "delegation", "namenoderpcaddress")
        query = [(name, value) for name, value in request.query.items() if name not in left_out]
        query.append(("user.name", caller.user))
        query.append(("namenoderpcaddress", self._rpc_address))
        host = identity.host_name or identity.ip_address
        where = f"http://{host}:{identity.info_port}/webhdfs/v1{quote(path)}"
        return f"{where}?{urlencode(query)}"
