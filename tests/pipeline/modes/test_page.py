"""docs/pipeline.md has the keys and the tables that the code has."""

import re
import runpy
import tomllib
from pathlib import Path

from ottla.pipeline.config import SETTINGS, key, load

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "pipeline.md"


def test_the_page_is_fresh() -> None:
    printed = runpy.run_path(str(ROOT / "docs" / "make_pipeline_tables.py"))
    assert PAGE.read_text(encoding="utf-8") == printed["render"](), "run: make docs"


def test_the_configuration_that_it_shows_can_be(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "pipeline.toml"
    file.write_text(example)
    assert load(file).slo_groups
    assert set(tomllib.loads(example)) <= {key(name) for name in SETTINGS}
