"""One wording for each kind of refusal, whoever tells it: ours, Apache's, hdfs-native."""

import errno

import pytest

from headrace.client.hadoop_rpc import RpcConnectionError
from headrace.client.refusals import as_oserror, sentence
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

MISSING = [
    FileNotFoundError("/x"),
    FileNotFoundError("File does not exist: /x"),
    FileNotFoundError("rename source /x is not found."),
    FileNotFoundError("rename destination parent /x/y not found."),
    FileNotFoundError("Parent directory doesn't exist: /x"),
    RemoteError(java.FILE_NOT_FOUND, "File does not exist: /x"),
    RemoteError(java.FILE_NOT_FOUND, "File /x does not exist."),
    RemoteError(java.FILE_NOT_FOUND, "Directory does not exist: /x"),
    RemoteError(java.FILE_NOT_FOUND, "cannot find /x"),
    RemoteError(
        java.FILE_NOT_FOUND,
        "File does not exist: /x\n\tat org.apache.hadoop.hdfs.server.namenode.INodeFile.valueOf"
        "(INodeFile.java:87)\n\tat java.lang.Thread.run(Thread.java:840)\n",
    ),
    RemoteError(
        java.FILE_NOT_FOUND, "Failed to append to non-existent file /x for client 127.0.0.1"
    ),
]


@pytest.mark.parametrize("error", MISSING, ids=str)
def test_a_missing_path(error: Exception) -> None:
    told = as_oserror(error, "/typed")
    assert isinstance(told, FileNotFoundError)
    assert sentence(told) == "/x: no such file or directory"


@pytest.mark.parametrize(
    "error",
    [
        RemoteError(java.PARENT_NOT_DIRECTORY, "/x (is not a directory)"),
        RemoteError(java.PATH_IS_NOT_DIRECTORY, "`/x': Is not a directory"),
        RemoteError(java.PATH_IS_NOT_DIRECTORY, "/x: Is not a directory"),
        RuntimeError(f'RPCError("{java.PARENT_NOT_DIRECTORY}", "/x (is not a directory)")'),
    ],
    ids=str,
)
def test_what_is_no_directory(error: Exception) -> None:
    told = as_oserror(error, "/x/typed")
    assert isinstance(told, NotADirectoryError)
    assert sentence(told) == "/x: not a directory"


BUSY = "Failed to APPEND_FILE /x for me-1 on 127.0.0.1 because "
OWNED = BUSY + "this file lease is currently owned by you-2 on 127.0.0.9"


@pytest.mark.parametrize(
    "error",
    [
        FileExistsError(OWNED),
        RemoteError(java.ALREADY_BEING_CREATED, OWNED),
        RemoteError(java.ALREADY_BEING_CREATED, OWNED + "\n\tat org.apache.hadoop.X.y(X.java:1)"),
    ],
    ids=repr,
)
def test_a_file_that_somebody_writes(error: Exception) -> None:
    told = as_oserror(error, "/typed")
    assert told.errno == errno.EBUSY
    assert sentence(told) == (
        "/x: it is being written by you-2 on 127.0.0.9, or was by one that died: wait a minute, or "
        "end that with `headrace fs recover-lease`"
    )


@pytest.mark.parametrize(
    "text",
    [
        OWNED + ": block recovery is in progress",
        BUSY + "lease recovery is in progress. Try again later.",
        BUSY + "the file is under construction but no leases found.",
    ],
)
def test_a_file_that_is_being_recovered(text: str) -> None:
    told = as_oserror(RemoteError(java.RECOVERY_IN_PROGRESS, text), "/typed")
    assert told.errno == errno.EBUSY
    assert sentence(told).startswith("/x: its last writer is gone and its end is being mended")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (FileNotFoundError("Path is not a file: /x"), IsADirectoryError, "/x: is a directory"),
        (FileExistsError("/x for client 127.0.0.1 already exists"), FileExistsError, "already ex"),
        (
            FileExistsError("rename destination /y already exists"),
            FileExistsError,
            "/y: already exists",
        ),
        (FileExistsError("/x already exists as a directory"), IsADirectoryError, "is a directory"),
        (
            FileExistsError("Path is not a directory: /x"),
            FileExistsError,
            "/x: already exists and is not a directory",
        ),
        (
            RemoteError(java.SAFE_MODE, "Cannot create /x. Name node is in safe mode.\nIt was …"),
            OSError,
            "/x: the file system is in safe mode",
        ),
        (
            RuntimeError(
                f'RPCError("{java.ACCESS_CONTROL}", "Permission denied: user=bob, access=WRITE, '
                'inode=\\"/\\":root:supergroup:drwxr-xr-x")'
            ),
            PermissionError,
            "/x: permission denied: bob has no write access to / (root:supergroup drwxr-xr-x)",
        ),
        (
            RemoteError(
                java.ACCESS_CONTROL, "Access denied for user bob. Superuser privilege is …"
            ),
            PermissionError,
            "/x: permission denied: Access denied for user bob",
        ),
        (
            RuntimeError(
                "All DataNodes failed: [DatanodeInfoProto { id: DatanodeIdProto { ip_addr: "
                '"127.0.0.1", host_name: "a", datanode_uuid: "u", xfer_port: 9866, … }]'
            ),
            OSError,
            "/x: none of the DataNodes that have its bytes could be read (127.0.0.1:9866)",
        ),
        (
            OSError("Connection refused (os error 111)"),
            OSError,
            "/x: a server of the file system: connection refused",
        ),
        (
            RemoteError(
                java.IO, "File /x could only be written to 0 of the 1 minReplication nodes."
            ),
            OSError,
            "/x: no DataNode has room",
        ),
        (
            RemoteError(
                java.SNAPSHOT,
                "The directory /x cannot be deleted since /x/y is snapshottable and already has "
                "snapshots",
            ),
            OSError,
            "/x: can be neither moved nor deleted while /x/y has snapshots: `headrace fs snapshot "
            "list /x/y` names them",
        ),
        (RpcConnectionError("can't reach a:1"), ConnectionError, "can't reach a:1"),
        (RuntimeError('InvalidPath("Unclosed group at pos 2")'), OSError, "/x: Unclosed group"),
        (RuntimeError("surprise"), OSError, "/x: surprise"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"),
            OSError,
            "/x: no such",
        ),
    ],
)
def test_other_refusals(error: Exception, kind: type[OSError], words: str) -> None:
    told = as_oserror(error, "/x")
    assert isinstance(told, kind)
    assert words in sentence(told)
