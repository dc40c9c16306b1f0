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

A setting has Kafka's name if Kafka has that setting; those of Ottla alone begin with `ottla.`. `ottla help KEY` prints
one of them. A value comes from the last of these sources that names it:

1. `--config FILE`, a properties file such as Kafka's `server.properties`,
2. the environment: `KAFKA_NUM_PARTITIONS`, then `OTTLA_NUM_PARTITIONS` (underscores for dots),
3. `--set num.partitions=3`.

The broker does not start with a value out of range, nor with an unknown key of `--set`. It ignores an unknown key of a
file or of the environment, and logs a warning. Kafka's settings for threads, replicas and controllers are not needed
here: one line of the log lists those that are left out.

There is no TLS, no SASL and no access control yet. So the broker does not start either with settings that ask for them
(`ssl.…`, `sasl.…`, `authorizer.class.name`, `super.users` and the like), unless they have Kafka's default.

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
