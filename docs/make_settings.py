"""Print docs/settings.md from the settings that the code has.

Run it with ``make docs``. A test compares the page with what this prints.
"""

from __future__ import annotations

from pathlib import Path

from ottla.broker.setting_sources import ALIASES
from ottla.broker.settings import FIELDS, Settings

PAGE = Path(__file__).with_name("settings.md")

HEAD = """\
# Settings

<!-- Printed by docs/make_settings.py (`make docs`); do not edit. -->

Under Kafka's own names where Kafka has the setting. Sources, later ones win: the defaults, `--config FILE` (a
properties file), the environment (`KAFKA_NUM_PARTITIONS`, then `OTTLA_NUM_PARTITIONS`: dots become underscores), and
`--set num.partitions=3`. A value out of range ends the start, and so does an unknown key of `--set`; an unknown key of
a file or variable is ignored with a warning. What would protect an Apache Kafka and is not there yet (`ssl.…`,
`sasl.…`, `authorizer.class.name`, `super.users` and their kin) ends the start, too, unless it has Kafka's default.

| Setting | Default | Meaning |
|---|---|---|
"""


def render() -> str:
    """The whole page."""
    rows = []
    for row in Settings().describe():
        meaning = row.documentation
        if choices := FIELDS[row.name].metadata["choices"]:
            meaning += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
        if not FIELDS[row.name].metadata["effective"]:
            meaning += " *No effect yet.*"
        rows.append(f"| `{row.name}` | {f'`{row.default}`' if row.default else ''} | {meaning} |")
    aliases = ", ".join(f"`{alias}` (`{target}`)" for alias, (target, _) in sorted(ALIASES.items()))
    return HEAD + "\n".join(rows) + f"\n\nOther spellings that are understood: {aliases}.\n"


if __name__ == "__main__":
    PAGE.write_text(render())
