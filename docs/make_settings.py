"""Print docs/settings.md from the settings that the code has.

Run it with ``make docs``. A test compares the page with what this prints.
"""

from __future__ import annotations

from pathlib import Path

from ottla.broker.core.configs.groups import GROUP_KEYS, GroupKey
from ottla.broker.setting_keys import ALIASES
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
file or of the environment, and logs a warning; but a slip in a key that protects, such as `autorizer.class.name`, ends
the start. Kafka's settings for threads, replicas and controllers are not needed here: one line of the log lists those
that are left out.

A key marked † may be set for one listener, too, as `listener.name.internal.ssl.client.auth=required`, or for one
mechanism of it, as `listener.name.internal.plain.sasl.jaas.config=…`. The most specific one counts. A
name that no listener has ends the start. In the environment two underscores stand for one, and three for a dash:
`KAFKA_LISTENER_NAME_SASL__SSL_PLAIN_SASL_JAAS_CONFIG`.

A value may refer to another place: `${file:PATH}` is the text of a file, `${file:PATH:KEY}` a line of a properties
file, `${env:NAME}` an environment variable. A setting that is called a secret is shown to nobody: not by
DescribeConfigs, nor in a log or an error.

The broker does not start with a setting of Kafka's that would protect it and that is not listed here (`ssl.…`,
`sasl.…`, classes of one's own). What is about Java, Kerberos or the part of a client is accepted, and a warning says
that it has no effect.

| Setting | Default | Meaning |
|---|---|---|
"""

GROUPS = """
## Of a group

`ottla configs alter GROUP --entity-type groups` sets these for one group, while the broker runs. The bounds are
settings of the broker: it reads them when it starts. As in Kafka, groups also have settings that begin with `share.`
and `streams.`. They are kept and shown, and have no effect.

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
        if FIELDS[row.name].metadata["sensitive"]:
            meaning += " A secret."
        name = f"`{row.name}` †" if FIELDS[row.name].metadata["by_listener"] else f"`{row.name}`"
        rows.append(f"| {name} | {f'`{row.default}`' if row.default else ''} | {meaning} |")
    aliases = ", ".join(f"`{alias}` (`{target}`)" for alias, (target, _) in sorted(ALIASES.items()))
    spellings = f"\n\nOther spellings that are understood: {aliases}.\n"
    return HEAD + "\n".join(rows) + spellings + GROUPS + "".join(map(_of_group, GROUP_KEYS.values()))


def _of_group(key: GroupKey) -> str:
    if not key.effective:
        return ""
    least, most = (key.broker_key.replace("consumer.", f"consumer.{end}.") for end in ("min", "max"))
    bounds = f"From `{least}` to `{most}` of the broker; where a group has none, `{key.broker_key}` counts."
    return f"| `{key.name}` | `{key.default}` | {key.documentation} {bounds} |\n"


if __name__ == "__main__":
    PAGE.write_text(render())
