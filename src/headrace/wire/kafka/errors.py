"""Kafka's error codes: values in responses, never exceptions.

Owns: the numbers, Kafka's names for them, whether a client may try again, and a sentence for
people. Must not know: when an error applies.
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """A Kafka error code; an `int` on the wire and in messages."""

    retriable: bool
    message: str

    def __new__(cls, value: int, retriable: bool, message: str) -> "ErrorCode":
        code = int.__new__(cls, value)
        code._value_ = value
        code.retriable = retriable
        code.message = message
        return code

    @classmethod
    def of(cls, value: int) -> "ErrorCode":
        """The code with this number; numbers of the future are UNKNOWN_SERVER_ERROR."""
        try:
            return cls(value)  # type: ignore[call-arg]
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR

    UNKNOWN_SERVER_ERROR = -1, False, "the server met an unexpected error"
    NONE = 0, False, "no error"
    OFFSET_OUT_OF_RANGE = 1, False, "the offset is outside of the partition's log"
    CORRUPT_MESSAGE = 2, True, "the batch fails its checksum, has a wrong size or is malformed"
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "no such topic or partition on this broker"
    INVALID_FETCH_SIZE = 4, False, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, True, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, True, "this broker does not lead, or does not hold, the partition"
    REQUEST_TIMED_OUT = 7, True, "the request was not done within its time"
    BROKER_NOT_AVAILABLE = 8, False, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, True, "the partition's replica is not available"
    MESSAGE_TOO_LARGE = 10, False, "the batch is larger than the topic allows"
    STALE_CONTROLLER_EPOCH = 11, False, "the controller's epoch is behind"
    OFFSET_METADATA_TOO_LARGE = 12, False, "the metadata of a committed offset is too large"
    NETWORK_EXCEPTION = 13, True, "the connection ended before the answer came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "the coordinator is still loading its state"
    COORDINATOR_NOT_AVAILABLE = 15, True, "no coordinator is available"
    NOT_COORDINATOR = 16, True, "this broker is not the coordinator asked for"
    INVALID_TOPIC_EXCEPTION = 17, False, "the topic's name is not valid for this operation"
    RECORD_LIST_TOO_LARGE = 18, False, "the batches are larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, True, "fewer replicas are in sync than min.insync.replicas asks for"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "written, but to fewer in-sync replicas than asked for",
    )
    INVALID_REQUIRED_ACKS = 21, False, "acks must be 0, 1 or -1"
    ILLEGAL_GENERATION = 22, False, "the generation is not the group's current one"
    INCONSISTENT_GROUP_PROTOCOL = 23, False, "the member shares no protocol with the group"
    INVALID_GROUP_ID = 24, False, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, False, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, False, "the session timeout is outside of the broker's bounds"
    REBALANCE_IN_PROGRESS = 27, False, "the group is rebalancing; the member must rejoin"
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "the committed offsets are too large to store"
    TOPIC_AUTHORIZATION_FAILED = 29, False, "not authorized for the topic"
    GROUP_AUTHORIZATION_FAILED = 30, False, "not authorized for the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "not authorized for the cluster"
    INVALID_TIMESTAMP = 32, False, "a record's timestamp is outside of the topic's bounds"
    UNSUPPORTED_SASL_MECHANISM = 33, False, "the SASL mechanism is not enabled"
    ILLEGAL_SASL_STATE = 34, False, "the request does not fit the state of the SASL exchange"
    UNSUPPORTED_VERSION = 35, False, "the API version is not supported"
    TOPIC_ALREADY_EXISTS = 36, False, "a topic of this name exists"
    INVALID_PARTITIONS = 37, False, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "the replication factor is below 1 or above the number of brokers",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, False, "the replica assignment is not valid"
    INVALID_CONFIG = 40, False, "a configuration is not valid"
    NOT_CONTROLLER = 41, True, "this node is not the active controller"
    INVALID_REQUEST = 42, False, "the request contradicts itself or lacks a part"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "the message format does not support the request"
    POLICY_VIOLATION = 44, False, "the request breaks a policy of the cluster"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "the producer's sequence number is not the next one"
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "the producer's sequence number was seen before"
    INVALID_PRODUCER_EPOCH = 47, False, "the producer's epoch is older than the one known"
    INVALID_TXN_STATE = 48, False, "the transaction's state does not allow the operation"
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        False,
        "the producer id does not belong to the transactional id",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        False,
        "the transaction timeout is larger than the broker allows",
    )
    CONCURRENT_TRANSACTIONS = 51, True, "another operation of this transactional id is under way"
    TRANSACTION_COORDINATOR_FENCED = 52, False, "the transaction coordinator's epoch is behind"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "not authorized for the transactional id"
    SECURITY_DISABLED = 54, False, "security features are off"
    OPERATION_NOT_ATTEMPTED = 55, False, "not tried, because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, True, "the log's disk failed"
    LOG_DIR_NOT_FOUND = 57, False, "no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, False, "authentication failed"
    UNKNOWN_PRODUCER_ID = 59, False, "nothing is known of the producer id"
    REASSIGNMENT_IN_PROGRESS = 60, False, "the partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "delegation tokens are off"
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "the delegation token has another owner"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "delegation tokens cannot be asked for on this connection",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "not authorized for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, False, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, False, "the principal's type is not supported"
    NON_EMPTY_GROUP = 68, False, "the group has members"
    GROUP_ID_NOT_FOUND = 69, False, "no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "no such fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, True, "the fetch session's epoch is not the next one"
    LISTENER_NOT_FOUND = 72, True, "the leader has no listener of this name"
    TOPIC_DELETION_DISABLED = 73, False, "topics cannot be deleted here"
    FENCED_LEADER_EPOCH = 74, True, "the leader epoch in the request is older than the broker's"
    UNKNOWN_LEADER_EPOCH = 75, True, "the leader epoch in the request is newer than the broker's"
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "the requesting client does not know this compression"
    STALE_BROKER_EPOCH = 77, False, "the broker's epoch is behind"
    OFFSET_NOT_AVAILABLE = 78, True, "the new leader does not know its high watermark yet"
    MEMBER_ID_REQUIRED = 79, False, "the member must join again with the id it was given"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "the preferred leader is not available"
    GROUP_MAX_SIZE_REACHED = 81, False, "the group is full"
    FENCED_INSTANCE_ID = 82, False, "another member took over this static instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "no replica may become leader"
    ELECTION_NOT_NEEDED = 84, True, "the partition has the leader it should have"
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "the partition is not being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "the group is still subscribed to the topic"
    INVALID_RECORD = 87, False, "a record or batch breaks the format or the topic's rules"
    UNSTABLE_OFFSET_COMMIT = 88, True, "an open transaction has offsets of this partition"
    THROTTLING_QUOTA_EXCEEDED = 89, True, "a quota is exhausted"
    PRODUCER_FENCED = 90, False, "a newer producer with the same transactional id exists"
    RESOURCE_NOT_FOUND = 91, False, "no such resource"
    DUPLICATE_RESOURCE = 92, False, "the resource is named twice"
    UNACCEPTABLE_CREDENTIAL = 93, False, "the credential is not acceptable"
    INCONSISTENT_VOTER_SET = 94, False, "the voter set is not the one expected"
    INVALID_UPDATE_VERSION = 95, False, "the update's version is not valid"
    FEATURE_UPDATE_FAILED = 96, False, "the features were not updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "the forwarded principal cannot be read"
    SNAPSHOT_NOT_FOUND = 98, False, "no such snapshot"
    POSITION_OUT_OF_RANGE = 99, False, "the position is outside of the snapshot"
    UNKNOWN_TOPIC_ID = 100, True, "no topic has this id here"
    DUPLICATE_BROKER_REGISTRATION = 101, False, "another broker is registered with this id"
    BROKER_ID_NOT_REGISTERED = 102, False, "no broker is registered with this id"
    INCONSISTENT_TOPIC_ID = 103, True, "the log belongs to a topic of another id"
    INCONSISTENT_CLUSTER_ID = 104, False, "the cluster id is another one"
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "the fetch session mixed topic names and topic ids"
    INELIGIBLE_REPLICA = 107, False, "the new in-sync set holds a replica that may not be in it"
    NEW_LEADER_ELECTED = 108, False, "the change was made and moved the leadership"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "the offset is in tiered storage"
    FENCED_MEMBER_EPOCH = 110, False, "the group fenced the member's epoch; it must rejoin"
    UNRELEASED_INSTANCE_ID = 111, False, "another member still holds this static instance id"
    UNSUPPORTED_ASSIGNOR = 112, False, "the group does not support this assignor"
    STALE_MEMBER_EPOCH = 113, False, "the member's epoch is behind"
    MISMATCHED_ENDPOINT_TYPE = 114, False, "the request came to an endpoint of another type"
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "this type of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, False, "no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "the telemetry subscription is not the current one"
    TELEMETRY_TOO_LARGE = 118, False, "the telemetry is larger than the broker takes"
    INVALID_REGISTRATION = 119, False, "the controller took the broker's registration for invalid"
    TRANSACTION_ABORTABLE = 120, False, "the transaction failed and must be aborted"
    INVALID_RECORD_STATE = 121, False, "the record's state does not allow the acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, True, "no such share session"
    INVALID_SHARE_SESSION_EPOCH = 123, True, "the share session's epoch is not the next one"
    FENCED_STATE_EPOCH = 124, False, "the share group's state epoch is behind"
    INVALID_VOTER_KEY = 125, False, "the voter's key is not that of this node"
    DUPLICATE_VOTER = 126, False, "the voter is in the voter set already"
    VOTER_NOT_FOUND = 127, False, "the voter is not in the voter set"
    INVALID_REGULAR_EXPRESSION = 128, False, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, False, "the client's metadata is too old; it must bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, False, "the streams topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "the streams topology's epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, False, "the streams topology's epoch is behind"
    SHARE_SESSION_LIMIT_REACHED = 133, True, "no more share sessions can be opened"
