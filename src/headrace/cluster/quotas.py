"""Client quotas in the metadata: deciding on changes, and telling what is set.

Owns: AlterClientQuotas (49), versions 0–1, and the answer of DescribeClientQuotas (48), versions
0–1: 1 flexible, both. Pure. Spec: KIP-546, KIP-599, KIP-612; Kafka's ClientQuotaControlManager and
ClientQuotasImage. Must not know: how a quota is held (`broker.quotas`).

An entity is a user, a client id, both, or an address; a name of None is the default of its type.
Each entry of a request is decided by itself.
"""

from collections.abc import Iterable, Iterator

from headrace.cluster.decision import DecisionContext, Records, Refusal
from headrace.cluster.image import ClusterImage, QuotaEntity
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import describe_client_quotas as describing
from headrace.wire.kafka.messages import metadata_records
from headrace.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
    EntryData,
    OpData,
)
from headrace.wire.kafka.messages.metadata_records import ClientQuotaRecord

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

_OF_CLIENTS = {
    PRODUCER_BYTE_RATE: True,
    CONSUMER_BYTE_RATE: True,
    REQUEST_PERCENTAGE: False,
    CONTROLLER_MUTATION_RATE: False,
}
"""By key: whether its values are whole numbers."""
_OF_ADDRESSES = {CONNECTION_CREATION_RATE: True}

EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def decide_alter_client_quotas(
    image: ClusterImage, request: AlterClientQuotasRequest, _context: DecisionContext
) -> tuple[Records, AlterClientQuotasResponse]:
    records: Records = []
    answers: list[AlterClientQuotasResponseEntryData] = []
    seen: set[QuotaEntity] = set()
    for entry in request.entries:
        entity = _entity_of(entry.entity)
        refusal = _refusal_of(entry)
        if refusal is None and entity in seen:
            refusal = _invalid("An entity is named twice.")
        seen.add(entity)
        if refusal is None:
            records += _changes(image, entity, entry)
        answers.append(
            AlterClientQuotasResponseEntryData(
                error_code=0 if refusal is None else refusal.error,
                error_message=None if refusal is None else refusal.message,
                entity=[
                    EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
        )
    if request.validate_only:
        records = []
    return records, AlterClientQuotasResponse(entries=answers)


def _changes(image: ClusterImage, entity: QuotaEntity, entry: EntryData) -> Records:
    """Only what differs from what is set."""
    known = image.quotas.get(entity, {})
    records: Records = []
    for op in entry.ops:
        is_change = op.key in known if op.remove else known.get(op.key) != op.value
        if is_change:
            records.append(
                ClientQuotaRecord(
                    entity=[
                        metadata_records.EntityData(
                            entity_type=part.entity_type, entity_name=part.entity_name
                        )
                        for part in entry.entity
                    ],
                    key=op.key,
                    value=0.0 if op.remove else op.value,
                    remove=op.remove,
                )
            )
    return records


def _entity_of(parts: Iterable[EntityData]) -> QuotaEntity:
    return frozenset((part.entity_type, part.entity_name) for part in parts)


def _refusal_of(entry: EntryData) -> Refusal | None:
    types = [part.entity_type for part in entry.entity]
    if not types:
        return _invalid("Invalid empty client quota entity.")
    if len(set(types)) != len(types):
        return _invalid("An entity has a type twice.")
    for part in entry.entity:
        if part.entity_type not in (USER, CLIENT_ID, IP):
            return _invalid(f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            return _invalid(f"Empty {part.entity_type} not supported.")
    if IP in types and len(types) > 1:
        return _invalid("Invalid combination: ip can't be combined with user or client-id.")
    allowed = _OF_ADDRESSES if IP in types else _OF_CLIENTS
    keys = [op.key for op in entry.ops]
    if len(set(keys)) != len(keys):
        return _invalid("A quota is named twice for one entity.")
    for op in entry.ops:
        reason = _reason_against(op, allowed)
        if reason is not None:
            return _invalid(reason)
    return None


def _reason_against(op: OpData, allowed: dict[str, bool]) -> str | None:
    if op.key not in allowed:
        return f"Invalid configuration key {op.key}"
    if op.remove:
        return None
    if not op.value > 0 or op.value == float("inf"):
        return f"Quota {op.key} must be greater than 0"
    if allowed[op.key] and op.value != int(op.value):
        return f"Quota {op.key} must be a whole number"
    return None


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


# -- telling -----------------------------------------------------------------------------------


def describe_client_quotas(
    image: ClusterImage, request: describing.DescribeClientQuotasRequest
) -> describing.DescribeClientQuotasResponse:
    refusal = _filter_refusal(request)
    if refusal is not None:
        return describing.DescribeClientQuotasResponse(
            error_code=refusal.error, error_message=refusal.message, entries=None
        )
    entries = [
        describing.EntryData(
            entity=[
                describing.EntityData(entity_type=kind, entity_name=name)
                for kind, name in sorted(entity, key=lambda part: part[0], reverse=True)
            ],
            values=[
                describing.ValueData(key=key, value=value) for key, value in sorted(values.items())
            ],
        )
        for entity, values in _matching(image, request)
    ]
    return describing.DescribeClientQuotasResponse(error_message=None, entries=entries)


def _matching(
    image: ClusterImage, request: describing.DescribeClientQuotasRequest
) -> Iterator[tuple[QuotaEntity, dict[str, float]]]:
    for entity, values in image.quotas.items():
        names = dict(entity)
        if request.strict and len(names) != len(request.components):
            continue
        if all(_is_met(names, component) for component in request.components):
            yield entity, values


def _is_met(names: dict[str, str | None], component: describing.ComponentData) -> bool:
    if component.entity_type not in names:
        return False
    name = names[component.entity_type]
    match component.match_type:
        case value if value == EXACT:
            return name == component.match
        case value if value == DEFAULT:
            return name is None
    return True


def _filter_refusal(request: describing.DescribeClientQuotasRequest) -> Refusal | None:
    types = [component.entity_type for component in request.components]
    if len(set(types)) != len(types):
        return _invalid("An entity type is named twice.")
    if IP in types and len(types) > 1:
        return _invalid("Invalid combination: ip can't be combined with user or client-id.")
    for component in request.components:
        if component.entity_type not in (USER, CLIENT_ID, IP):
            return Refusal(
                ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{component.entity_type}'"
            )
        if component.match_type not in (EXACT, DEFAULT, SPECIFIED):
            return _invalid(f"Unknown match type {component.match_type}")
        if component.match_type == EXACT and component.match is None:
            return _invalid("Request specifies EXACT, but no match.")
    return None
