"""The configuration of the pipeline: one TOML file, every key of which is an option of the command line too.

Sources, later ones win: the defaults, ``OTTLA_BOOTSTRAP_SERVERS``, the file, the options.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ottla.clients.durations import parse_duration_ms

FORMATS = ("parquet", "delta", "iceberg")
_MEMORY = re.compile(r"\d+[kmgtKMGT]", re.ASCII)


class ConfigError(ValueError):
    """A key is unknown or a value cannot be one; the message names key, value and what is allowed."""


def _setting(default: Any, text: str, metavar: str = "", **more: Any) -> Any:
    """A field of `Config`; a dict starts empty."""
    metadata = {"text": text, "metavar": metavar, **more}
    if default is dict:
        return field(default_factory=dict, metadata=metadata | {"kind": "map"}, repr=False)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Config:
    """The settings of one run. Each attribute is a key of the file and an option, with dashes for underscores."""

    bootstrap_server: str | None = _setting(
        None, "A broker to read from; several are tried in turn.", "HOST:PORT[,…]", short="-b"
    )
    log_dir: str | None = _setting(
        None, "A log directory to read instead of a broker: Ottla's data directory, or one of Apache Kafka's.", "DIR"
    )
    lake: str = _setting("ottla-lake", "The folder of the tables.", "DIR")
    format: str = _setting("parquet", "Format of silver and bronze tables.", choices=FORMATS)
    keep_raw: bool = _setting(False, "Also keep every record of __consumer_offsets as it is, in bronze.offsets_log.")
    cluster_id: str | None = _setting(
        None, "The cluster's name in the tables. [what the broker or its meta.properties says]", "ID"
    )
    starting_offsets: str = _setting(
        "earliest",
        "Start of a stream that has no checkpoint and follows no backfill.",
        choices=("earliest", "latest"),
    )
    isolation: str = _setting(
        "read_committed",
        "Count all offsets, or none of open and aborted transactions.",
        choices=("read_committed", "read_uncommitted"),
    )
    fail_on_data_loss: bool = _setting(
        True, "Fail when records were removed before they were read; otherwise go on after the gap."
    )
    tasks: int | None = _setting(None, "Tasks that read at once. [twice the cores]", "N", least=1)
    max_offsets_per_trigger: int = _setting(
        500_000, "Most records of a micro-batch, of all partitions together.", "N", least=1
    )
    trigger: str = _setting("10s", "Time between two micro-batches of a stream.", "DURATION", span=True)
    sample_interval: str = _setting("10s", "Time between two samples of the ends of all logs.", "DURATION", span=True)
    master: str = _setting("local[*]", "Spark's master: local[*], spark://HOST:PORT, yarn, k8s://…", "URL")
    driver_memory: str = _setting("2g", "Memory of Spark's driver.", "SIZE")
    slo: float = _setting(
        120.0, "Longest time that a group may be behind within its objective.", "DURATION", shown="2m"
    )
    slo_groups: dict[str, float] = _setting(  # noqa: RUF009 - a field
        dict, "The same for one group; a table [slo-groups] in the file.", "GROUP=DURATION", values="span"
    )
    kafka: dict[str, str] = _setting(  # noqa: RUF009 - a field
        dict, "An option of the source, a table [kafka] in the file: security and the like.", "KEY=VALUE", values="text"
    )
    spark_conf: dict[str, str] = _setting(  # noqa: RUF009 - a field
        dict, "A setting of Spark's, a table [spark-conf] in the file.", "KEY=VALUE", values="text"
    )

    @property
    def trigger_ms(self) -> int:
        """See ``trigger``."""
        return span_ms("trigger", self.trigger)

    @property
    def sample_interval_ms(self) -> int:
        """See ``sample_interval``."""
        return span_ms("sample-interval", self.sample_interval)

    @property
    def origin(self) -> str:
        """The cluster or directory that is read, in words."""
        return f"the log directory {self.log_dir}" if self.log_dir else f"the cluster at {self.bootstrap_server}"

    def source_options(self, **more: str) -> dict[str, str]:
        """The options of the source ``ottla`` that say what to read, with ``more`` of them; those in ``kafka`` win."""
        options = {"failOnDataLoss": str(self.fail_on_data_loss).lower(), **more}
        if self.log_dir:
            options["path"] = self.log_dir
        else:
            options["kafka.bootstrap.servers"] = self.bootstrap_server or ""
        if self.tasks is not None:
            options["tasks"] = str(self.tasks)
        return options | self.kafka


SETTINGS = {one.name: one for one in fields(Config)}
"""The keys, with underscores."""


def key(name: str) -> str:
    """An attribute's name as it is written in files and options: ``bootstrap-server``."""
    return name.replace("_", "-")


def span_ms(name: str, text: str) -> int:
    """A duration (`ottla.clients.durations`) in milliseconds.

    Raises:
        ConfigError: it is none, or nothing.
    """
    try:
        span = parse_duration_ms(text)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
    if span < 1:
        raise ConfigError(f"{name}: {text!r} is no time at all: write e.g. 30s, 1h30m or 500ms")
    return span


def load(path: str | Path | None = None, *, options: Mapping[str, Any] | None = None, bootstrap: str = "") -> Config:
    """Put file and options together, and check them.

    Args:
        path: the TOML file; None for none.
        options: by attribute; what is None was not given. Those of tables are added to what the file has.
        bootstrap: what to read if neither file nor options say it.

    Raises:
        ConfigError: see there.
    """
    given = _read(Path(path)) if path is not None else {}
    # An option that says what to read stands for both ways to say it.
    if any((options or {}).get(name) is not None for name in ("bootstrap_server", "log_dir")):
        given = {name: value for name, value in given.items() if name not in ("bootstrap_server", "log_dir")}
    for name, value in (options or {}).items():
        if value is not None:
            given[name] = given.get(name, {}) | value if isinstance(value, dict) else value
    if bootstrap and "log_dir" not in given and "bootstrap_server" not in given:
        given["bootstrap_server"] = bootstrap
    config = Config(**{name: _checked(name, value) for name, value in given.items()})
    _check_together(config)
    return config


def _read(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"--config: {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config: {path} is no TOML: {error}") from None
    found: dict[str, Any] = {}
    for name, value in document.items():
        attribute = name.replace("-", "_")
        if attribute not in SETTINGS:
            raise ConfigError(f"--config: {path}: there is no key {name!r}{near(name, map(key, SETTINGS))}")
        if attribute in found:
            raise ConfigError(f"--config: {path}: the key {key(attribute)!r} is there twice")
        found[attribute] = value
    return found


def near(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'lake'?``, or which there are."""
    names = list(known)
    close = get_close_matches(name.replace("_", "-"), names, n=2, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(repr(one) for one in close)}?"
    return f"; there are {', '.join(names)}"


def _checked(name: str, value: Any) -> Any:
    """A value of the right type and range."""
    setting, said = SETTINGS[name], key(name)
    about = setting.metadata
    if about.get("kind") == "map":
        return _table(said, value, about["values"])
    if isinstance(setting.default, bool):
        if not isinstance(value, bool):
            raise ConfigError(f"{said}: {value!r} is not true or false")
        return value
    if isinstance(setting.default, float):
        return _seconds(said, value)
    if "least" in about:
        if isinstance(value, bool) or not isinstance(value, int) or value < about["least"]:
            raise ConfigError(f"{said}: {value!r} is no whole number of {about['least']} or more")
        return value
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{said}: {value!r} is no text")
    if "choices" in about and value not in about["choices"]:
        raise ConfigError(f"{said}: {value!r} is none of {', '.join(about['choices'])}")
    if "span" in about:
        span_ms(said, value)
    if name == "driver_memory" and not _MEMORY.fullmatch(value):
        raise ConfigError(f"{said}: {value!r} is no size; write 512m or 2g")
    return value


def _table(said: str, value: Any, values: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{said}: {value!r} is no table; write [{said}] and below it KEY = VALUE")
    flat = _flat(value)
    if values == "span":
        return {name: _seconds(f"{said}.{name}", one) for name, one in flat.items()}
    return {name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in flat.items()}


def _flat(value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """TOML reads ``spark.executor.memory = "4g"`` as tables in tables; it is one key."""
    found: dict[str, Any] = {}
    for name, one in value.items():
        found |= _flat(one, f"{before}{name}.") if isinstance(one, Mapping) else {before + name: one}
    return found


def _seconds(said: str, value: Any) -> float:
    if not isinstance(value, str):
        raise ConfigError(f'{said}: {value!r} is no duration; write it with a unit and in quotes: "30s" or "2m"')
    return span_ms(said, value) / 1000


def _check_together(config: Config) -> None:
    if config.log_dir and config.bootstrap_server:
        raise ConfigError("bootstrap-server and log-dir: read from a broker or from files, not from both")
    if "://" in config.lake:
        raise ConfigError(
            f"lake: {config.lake!r} is no folder; on a cluster name one that all machines have mounted at this path"
        )
    if config.log_dir and not Path(config.log_dir).is_dir():
        raise ConfigError(f"log-dir: there is no folder {config.log_dir!r}")
