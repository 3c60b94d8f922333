"""docs/OPERATIONS.md tells the defaults and the metrics that the code has."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from headrace.base.broker_keys import BROKER_CONFIG
from headrace.base.config import SAME

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "OPERATIONS.md").read_text()


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_defaults", ROOT / "tools" / "generate_defaults.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_defaults_are_those_of_the_code(generator: ModuleType) -> None:
    assert generator.page(PAGE) == PAGE, "run `make docs`"


def test_every_default_that_differs_is_told() -> None:
    different = [key for key in BROKER_CONFIG.keys.values() if key.kafka_default is not SAME]
    assert different
    for key in different:
        assert f"| `{key.name}` |" in PAGE


def test_a_page_without_its_marks_is_refused(generator: ModuleType) -> None:
    with pytest.raises(ValueError, match="lost its marks"):
        generator.page("# Operations\n")


def test_every_metric_is_told() -> None:
    source = (ROOT / "src/headrace/node/metrics.py").read_text()
    names = set(re.findall(r'"headrace_(\w+)"', source)) | set(
        re.findall(r'^ +\("(\w+)", "[A-Z]', source, re.MULTILINE)
    )
    assert names
    told = set(re.findall(r"headrace_(\w+?)(?:_total)?[`{]", PAGE))
    assert names - told == set()
