"""Print the keys of the configuration and the tables of the lake in docs/pipeline.md from what the code has.

Run it with ``make docs``. A test compares the page with what this prints.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ottla.cli import pipeline_options
from ottla.pipeline.config import SETTINGS, key
from ottla.pipeline.tables import BRONZE, GOLD, SILVER, VERSION, Table

PAGE = Path(__file__).with_name("pipeline.md")
COMMANDS = {
    "backfill": (*pipeline_options.READ, *pipeline_options.WRITE, *pipeline_options.SPARK),
    "stream, available-now": (
        *pipeline_options.READ,
        *pipeline_options.WRITE,
        *pipeline_options.STREAM,
        *pipeline_options.SPARK,
    ),
    "gold": (*pipeline_options.GOLD, *pipeline_options.SPARK),
    "report": ("lake",),
    "query": ("lake", *pipeline_options.SPARK),
}


def render() -> str:
    """The whole page."""
    page = PAGE.read_text(encoding="utf-8")
    for name, text in (("keys", _keys()), ("tables", _tables())):
        begin = f"<!-- Printed by docs/make_pipeline_tables.py (`make docs`), do not edit: {name} -->\n"
        end = f"<!-- end of {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"{PAGE} has not one place for {name}")
        head, _, rest = page.partition(begin)
        page = f"{head}{begin}{text}{end}{rest.partition(end)[2]}"
    return page


def _keys() -> str:
    rows = ["| key | option | default | meaning | commands |", "|---|---|---|---|---|"]
    for name, setting in SETTINGS.items():
        about = setting.metadata
        option = f"`--{key(name)}`"
        default = "" if setting.default is None else f"`{str(about.get('shown', setting.default)).lower()}`"
        if about.get("kind") == "map":
            option, default = f"`--{key(name).removesuffix('s')} {about['metavar']}`", ""
        elif "short" in about:
            option += f", `{about['short']}`"
        choices = f" One of {', '.join(f'`{one}`' for one in about['choices'])}." if "choices" in about else ""
        commands = ", ".join(command for command, names in COMMANDS.items() if name in names)
        text = about["text"].replace("|", "\\|") + choices
        rows.append(f"| `{key(name)}` | {option} | {default} | {text} | {commands} |")
    return "\n".join(rows) + "\n"


def _tables() -> str:
    parts = [f"Version {VERSION} of the schemas.\n"]
    parts += [f"### {table.layer}.{table.name}\n\n{_table(table)}" for table in _all()]
    return "\n".join(parts)


def _all() -> Iterable[Table]:
    return (*BRONZE, *SILVER, *GOLD)


def _table(table: Table) -> str:
    keys = ", ".join(f"`{one}`" for one in table.key)
    rows = [f"{table.text} Key: {keys}.\n", "| column | type | meaning |", "|---|---|---|"]
    rows += [f"| `{one.name}` | `{one.kind}` | {one.text} |" for one in table.all_columns]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
