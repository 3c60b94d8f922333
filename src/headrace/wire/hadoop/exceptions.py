"""Refusals that cross the wire: Java's exception names, which clients act on, and a message.

Owns: the table of names. Must not know: when each is raised.

A client of Hadoop builds the exception from its class name, so a refusal is as much protocol as
a field number: `FileNotFoundException` becomes Python's, `SafeModeException` is retried,
`StandbyException` sends a client to the other NameNode.
"""

from headrace.base.errors import HeadraceError

_HDFS = "org.apache.hadoop.hdfs."
_PROTOCOL = _HDFS + "protocol."
_NAMENODE = _HDFS + "server.namenode."

# Java's own
FILE_NOT_FOUND = "java.io.FileNotFoundException"
IO = "java.io.IOException"
EOF = "java.io.EOFException"
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
ILLEGAL_STATE = "java.lang.IllegalStateException"
UNSUPPORTED_OPERATION = "java.lang.UnsupportedOperationException"

# Hadoop's
ACCESS_CONTROL = "org.apache.hadoop.security.AccessControlException"
AUTHORIZATION = "org.apache.hadoop.security.authorize.AuthorizationException"
FILE_ALREADY_EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"
PARENT_NOT_DIRECTORY = "org.apache.hadoop.fs.ParentNotDirectoryException"
DIRECTORY_LISTING_START_AFTER_NOT_FOUND = (
    "org.apache.hadoop.fs.DirectoryListingStartAfterNotFoundException"
)
PATH_IS_NOT_DIRECTORY = "org.apache.hadoop.fs.PathIsNotDirectoryException"
PATH_IS_NOT_EMPTY_DIRECTORY = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"
INVALID_REQUEST = "org.apache.hadoop.fs.InvalidRequestException"
INVALID_PATH = "org.apache.hadoop.fs.InvalidPathException"
HADOOP_ILLEGAL_ARGUMENT = "org.apache.hadoop.HadoopIllegalArgumentException"
INVALID_TOKEN = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
RETRIABLE = "org.apache.hadoop.ipc.RetriableException"
STANDBY = "org.apache.hadoop.ipc.StandbyException"
HEALTH_CHECK_FAILED = "org.apache.hadoop.ha.HealthCheckFailedException"
SERVICE_FAILED = "org.apache.hadoop.ha.ServiceFailedException"

# Hadoop RPC's
RPC_NO_SUCH_METHOD = "org.apache.hadoop.ipc.RpcNoSuchMethodException"
RPC_NO_SUCH_PROTOCOL = "org.apache.hadoop.ipc.RpcNoSuchProtocolException"
RPC_SERVER = "org.apache.hadoop.ipc.RpcServerException"
RPC_VERSION_MISMATCH = "org.apache.hadoop.ipc.RPC$VersionMismatch"

# HDFS's, to clients
ACL = _PROTOCOL + "AclException"
ALREADY_BEING_CREATED = _PROTOCOL + "AlreadyBeingCreatedException"
DS_QUOTA_EXCEEDED = _PROTOCOL + "DSQuotaExceededException"
NS_QUOTA_EXCEEDED = _PROTOCOL + "NSQuotaExceededException"
QUOTA_BY_STORAGE_TYPE_EXCEEDED = _PROTOCOL + "QuotaByStorageTypeExceededException"
FS_LIMIT_MAX_DIRECTORY_ITEMS = _PROTOCOL + "FSLimitException$MaxDirectoryItemsExceededException"
FS_LIMIT_PATH_COMPONENT_TOO_LONG = _PROTOCOL + "FSLimitException$PathComponentTooLongException"
NOT_REPLICATED_YET = _NAMENODE + "NotReplicatedYetException"
LEASE_EXPIRED = _NAMENODE + "LeaseExpiredException"
SAFE_MODE = _NAMENODE + "SafeModeException"
RECOVERY_IN_PROGRESS = _PROTOCOL + "RecoveryInProgressException"
SNAPSHOT = _PROTOCOL + "SnapshotException"
SNAPSHOT_ACCESS_CONTROL = _PROTOCOL + "SnapshotAccessControlException"
UNRESOLVED_PATH = _PROTOCOL + "UnresolvedPathException"
UNREGISTERED_NODE = _PROTOCOL + "UnregisteredNodeException"
XATTR_NOT_FOUND = _PROTOCOL + "XAttrNotFoundException"
NO_EC_POLICY_SET = _PROTOCOL + "NoECPolicySetException"

# HDFS's, to DataNodes
DISALLOWED_DATANODE = _HDFS + "server.protocol.DisallowedDatanodeException"
INCORRECT_VERSION = _HDFS + "server.common.IncorrectVersionException"
INVALID_BLOCK_REPORT_LEASE = _HDFS + "server.protocol.InvalidBlockReportLeaseException"
REPLICA_NOT_FOUND = _HDFS + "server.datanode.ReplicaNotFoundException"


class RemoteError(HeadraceError):
    """A call was refused: what the answer says instead of a result."""

    def __init__(self, class_name: str, message: str) -> None:
        super().__init__(f"{class_name.rpartition('.')[2]}: {message}")
        self.class_name = class_name
        self.message = message
