"""The pinned schema is the first one, for everybody and forever."""

import pytest
from tests.unit.pipeline.flushing import ROOMS

from headrace.base.errors import UsageError
from headrace.pipeline.inferred_schema import NOTHING_DDL, Sample, SchemaPin, infer
from headrace.testing.pipeline_files import SimulatedFiles


def test_the_first_pin_stands() -> None:
    files = SimulatedFiles()
    files.mkdirs(ROOMS.checkpoint)
    first, second = SchemaPin(files, ROOMS, "a"), SchemaPin(files, ROOMS, "b")
    assert first.read() is None
    assert first.pin("id BIGINT", 10) == "id BIGINT"
    # Another driver saw other records: it takes what is there, and leaves nothing aside.
    assert second.pin("id STRING", 20) == "id BIGINT"
    assert second.read() == first.read() == "id BIGINT"
    assert files.list(ROOMS.aside) == []


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format":1}', b'{"format":2,"schema":"a INT"}'])
def test_a_damaged_pin_is_never_inferred_anew(content: bytes) -> None:
    files = SimulatedFiles()
    writer = files.create(ROOMS.schema)
    writer.write(content)
    writer.close()
    with pytest.raises(UsageError, match=r"schema\.json"):
        SchemaPin(files, ROOMS, "a").read()


def test_without_records_there_is_nothing_to_infer_and_without_values_it_is_said() -> None:
    assert infer(None, Sample((), 0)) == NOTHING_DDL  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="first 7 records"):
        infer(None, Sample((), 7))  # type: ignore[arg-type]
