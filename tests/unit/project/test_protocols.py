"""docs/PROTOCOLS.md says what the registry says, and each row has its code."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from headrace.broker.api.registry import APIS, Api

ROOT = Path(__file__).resolve().parents[3]


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_protocols", ROOT / "tools" / "generate_protocols.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_registry_says() -> None:
    page = (ROOT / "docs" / "PROTOCOLS.md").read_text()
    assert page == load_generator().page(), "run `make docs`"


def test_the_page_has_one_row_per_api() -> None:
    page = load_generator().page()
    for api in APIS:
        assert page.count(f"\n| {api.key} | {api.name} |") == 1
        assert page.count(f"\n### {api.key} {api.name}\n") == 1


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_each_api_has_a_module_that_tells_its_versions(api: Api) -> None:
    module = ROOT / "src/headrace/broker/api" / f"k{api.key:02d}_{api.snake_name}.py"
    assert module.is_file(), f"{api.name} is in the registry, and {module.name} does not exist"
    assert module.read_text().startswith('"""'), f"{module.name} does not say what it serves"


def test_keys_are_unique_and_ranges_are_ranges() -> None:
    assert len({api.key for api in APIS}) == len(APIS)
    for api in APIS:
        assert 0 <= api.min_version <= api.max_version
