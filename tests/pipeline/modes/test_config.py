"""The configuration: a file and options, each value checked and named when it is refused."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import command
from ottla.pipeline.config import SETTINGS, Config, ConfigError, key, load, span_ms
from ottla.testing import Broker

WHOLE = """
bootstrap-server = "broker:9092"
lake = "/lake"
format = "delta"
keep-raw = true
tasks = 3
max-offsets-per-trigger = 1000
trigger = "2m"
slo = "30s"
[slo-groups]
payments = "5s"
"orders.eu" = "7.5s"
[spark-conf]
spark.executor.memory = "4g"
"spark.executor.cores" = 2
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "pipeline.toml"
    file.write_text(text)
    return file


def test_a_file(tmp_path: Path) -> None:
    config = load(written(tmp_path, WHOLE))
    assert (config.bootstrap_server, config.lake, config.format, config.keep_raw) == (
        "broker:9092",
        "/lake",
        "delta",
        True,
    )
    assert (config.tasks, config.max_offsets_per_trigger, config.trigger_ms, config.slo) == (3, 1000, 120_000, 30.0)
    assert config.slo_groups == {"payments": 5.0, "orders.eu": 7.5}
    assert config.spark_conf == {"spark.executor.memory": "4g", "spark.executor.cores": "2"}


def test_options_win_and_tables_are_joined(tmp_path: Path) -> None:
    options = {"lake": "/other", "format": None, "slo_groups": {"payments": "9s", "new": "1s"}}
    config = load(written(tmp_path, WHOLE), options=options)
    assert (config.lake, config.format) == ("/other", "delta")
    assert config.slo_groups == {"payments": 9.0, "orders.eu": 7.5, "new": 1.0}


def test_what_is_read_is_named_once(tmp_path: Path) -> None:
    """An option that names files stands against a broker of the file or of the environment, without a conflict."""
    config = load(written(tmp_path, WHOLE), options={"log_dir": str(tmp_path)}, bootstrap="env:9092")
    assert (config.log_dir, config.bootstrap_server) == (str(tmp_path), None)
    assert load(bootstrap="env:9092").bootstrap_server == "env:9092"
    assert load(written(tmp_path, WHOLE), bootstrap="env:9092").bootstrap_server == "broker:9092"
    with pytest.raises(ConfigError, match="bootstrap-server: '' is no text"):
        load(options={"bootstrap_server": ""}, bootstrap="env:9092")
    with pytest.raises(ConfigError, match="not from both"):
        load(options={"log_dir": str(tmp_path), "bootstrap_server": "a:1"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lakes = 1", "there is no key 'lakes'; did you mean 'lake'"),
        ("max_ofsets_per_trigger = 1", "did you mean 'max-offsets-per-trigger'"),
        ("xyzzy = 1", "there is no key 'xyzzy'; there are bootstrap-server, log-dir"),
        ('format = "csv"', "format: 'csv' is none of parquet, delta, iceberg"),
        ("tasks = 0", "tasks: 0 is no whole number of 1 or more"),
        ('tasks = "4"', "tasks: '4' is no whole number"),
        ("tasks = true", "tasks: True is no whole number"),
        ("keep-raw = 1", "keep-raw: 1 is not true or false"),
        ('trigger = "soon"', "trigger: 'soon' is no duration: write e.g. 30s, 1h30m or 500ms"),
        ('trigger = "0s"', "trigger: '0s' is no time at all"),
        ('trigger = "0.4ms"', "trigger: '0.4ms' is no time at all"),
        (f'trigger = "{"9" * 400}h"', "is too long: at most 5200w"),
        ('trigger = "10"', "trigger: '10' has no unit: write 10ms, 10s or 10m"),
        ("slo = 120", 'slo: 120 is no duration; write it with a unit and in quotes: "30s" or "2m"'),
        ('slo = "120"', "slo: '120' has no unit"),
        ("slo = nan", "slo: nan is no duration"),
        ("[slo-groups]\ng = 'x'", "slo-groups.g: 'x' is no duration"),
        ("slo-groups = 5", "slo-groups: 5 is no table"),
        ('driver-memory = "lots"', "driver-memory: 'lots' is no size"),
        ('lake = "s3://bucket/lake"', "'s3://bucket/lake' is no folder"),
        ('log-dir = "/nowhere/at/all"', "there is no folder '/nowhere/at/all'"),
        ("lake = ''", "lake: '' is no text"),
        ("lake = ", "is no TOML"),
        ("tasks = 1\ntasks = 2", "is no TOML"),
        ("keep-raw = true\nkeep_raw = true", "the key 'keep-raw' is there twice"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(written(tmp_path, text))
    assert said in str(refused.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load("/nowhere/pipeline.toml")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("10 s", 10_000),
        ("1.5m", 90_000),
        ("2min", 120_000),
        ("1h30m", 5_400_000),
        ("PT1H", 3_600_000),
        ("2d", 172_800_000),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert span_ms("trigger", text) == ms


def test_every_key_is_an_option() -> None:
    help_of = {
        name: CliRunner().invoke(command, ["pipeline", name, "--help"]).output
        for name in ("backfill", "stream", "available-now", "gold", "report", "query")
    }
    for name in SETTINGS:
        flag = f"--{key(name).removesuffix('s')}" if SETTINGS[name].metadata.get("kind") == "map" else f"--{key(name)}"
        assert any(flag in text for text in help_of.values()), flag
    assert all("--config FILE" in text for text in help_of.values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stream", "--trigger", "soon", "-b", "x:1"], "trigger: 'soon' is no duration"),
        (["stream"], "Say what to read"),
        (["gold", "--slo-group", "payments"], "write GROUP=DURATION"),
        (["gold", "--slo-group", "payments=x"], "'x' is no duration"),
        (["gold", "--since", "2026-01-01", "--full"], "--since and --full"),
        (["backfill", "--config", "/nowhere.toml"], "/nowhere.toml cannot be read"),
        (["stream", "--format", "csv"], "'csv' is not one of"),
        (["alerts"], "--bootstrap-server HOST:PORT"),
        (["alerts", "-b", "BROKER", "--storm-gap", "0"], "--storm-gap"),
        (["alerts", "-b", "BROKER", "--storm-gap", "soon"], "'soon' is no duration"),
        (["alerts", "-b", "BROKER", "--storm-generations", "1"], "x>=2"),
        (["alerts", "-b", "BROKER", "--stopped-intervals", "0"], "x>=1"),
        (["alerts", "-b", "BROKER", "--only", "lag"], "'lag' is not one of 'storm', 'stopped'"),
        (["alerts", "-b", "BROKER", "--to", "/no/such/folder/alerts"], "there is no folder /no/such/folder"),
        (["alerts", "-b", "BROKER", "--to", "topic:"], "the name of a topic"),
        (["alerts", "--log-dir", "LOGS", "--to", "topic:alerts"], "a topic needs a broker"),
    ],
)
def test_bad_usage_ends_with_2(arguments: list[str], said: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "__consumer_offsets-0").mkdir()
    with Broker() if "BROKER" in arguments else nullcontext() as broker:
        there = {"BROKER": broker.bootstrap_servers if broker else "", "LOGS": str(tmp_path)}
        result = CliRunner().invoke(command, ["pipeline", *(there.get(word, word) for word in arguments)])
    assert (result.exit_code, said in result.output) == (2, True), result.output


def test_the_defaults_can_be() -> None:
    assert load() == Config()
