"""Quotas: may so many names and bytes be added below a directory?"""

from typing import TYPE_CHECKING

from headrace.namespace.inodes import DirectoryInode
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def verify(
    ns: "Namespace",
    directory: DirectoryInode | None,
    names: int,
    space: int,
    *,
    below: DirectoryInode | None = None,
) -> None:
    """Refuse what would break a quota of `directory` or above it, up to but without `below`."""
    if not ns.quota_count:
        return
    while directory is not None and directory is not below:
        quota = directory.quota
        if quota is not None:
            if names > 0 and 0 <= quota.namespace < quota.namespace_used + names:
                raise RemoteError(
                    exceptions.NS_QUOTA_EXCEEDED,
                    f"The NameSpace quota (directories and files) of directory "
                    f"{directory.path()} is exceeded: quota={quota.namespace} "
                    f"file count={quota.namespace_used + names}",
                )
            if space > 0 and 0 <= quota.space < quota.space_used + space:
                raise RemoteError(
                    exceptions.DS_QUOTA_EXCEEDED,
                    f"The DiskSpace quota of {directory.path()} is exceeded: "
                    f"quota = {quota.space} B but diskspace consumed = "
                    f"{quota.space_used + space} B",
                )
        directory = directory.parent
