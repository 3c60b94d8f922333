"""ClientNamenodeProtocol, access lists and extended attributes."""

from collections.abc import Iterable

from headrace.namespace import requests
from headrace.namespace.rpc.shapes import (
    acl_entries_of,
    acl_entry_message,
    xattr_message,
    xattr_of,
)
from headrace.namespace.rpc.translation import Translation
from headrace.namespace.values import AclStatus, XAttr
from headrace.wire.hadoop.protos import acl_pb2 as acl
from headrace.wire.hadoop.protos import xattr_pb2 as xattr


def _status(status: AclStatus) -> acl.GetAclStatusResponseProto:
    message = acl.AclStatusProto(
        owner=status.owner,
        group=status.group,
        sticky=status.sticky,
        entries=[acl_entry_message(entry) for entry in status.entries],
    )
    if status.mode is not None:
        message.permission.perm = status.mode
    return acl.GetAclStatusResponseProto(result=message)


def _messages(xattrs: Iterable[XAttr]) -> list[xattr.XAttrProto]:
    return [xattr_message(one) for one in xattrs]


ACCESS: dict[str, Translation] = {
    "modifyAclEntries": Translation(
        lambda m: requests.ModifyAclEntries(m.src, acl_entries_of(m.aclSpec)),
        lambda _: acl.ModifyAclEntriesResponseProto(),
    ),
    "removeAclEntries": Translation(
        lambda m: requests.RemoveAclEntries(m.src, acl_entries_of(m.aclSpec)),
        lambda _: acl.RemoveAclEntriesResponseProto(),
    ),
    "removeDefaultAcl": Translation(
        lambda m: requests.RemoveDefaultAcl(m.src),
        lambda _: acl.RemoveDefaultAclResponseProto(),
    ),
    "removeAcl": Translation(
        lambda m: requests.RemoveAcl(m.src),
        lambda _: acl.RemoveAclResponseProto(),
    ),
    "setAcl": Translation(
        lambda m: requests.SetAcl(m.src, acl_entries_of(m.aclSpec)),
        lambda _: acl.SetAclResponseProto(),
    ),
    "getAclStatus": Translation(lambda m: requests.GetAclStatus(m.src), _status),
    "setXAttr": Translation(
        lambda m: requests.SetXAttr(m.src, xattr_of(m.xAttr), m.flag),
        lambda _: xattr.SetXAttrResponseProto(),
    ),
    "removeXAttr": Translation(
        lambda m: requests.RemoveXAttr(m.src, xattr_of(m.xAttr)),
        lambda _: xattr.RemoveXAttrResponseProto(),
    ),
    "getXAttrs": Translation(
        lambda m: requests.GetXAttrs(m.src, tuple(map(xattr_of, m.xAttrs))),
        lambda found: xattr.GetXAttrsResponseProto(xAttrs=_messages(found)),
    ),
    "listXAttrs": Translation(
        lambda m: requests.ListXAttrs(m.src),
        lambda found: xattr.ListXAttrsResponseProto(xAttrs=_messages(found)),
    ),
}
