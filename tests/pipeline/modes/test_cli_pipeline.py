"""What the commands say when they cannot, and how they end."""

import json
import sys
import time
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
import trustme
from click.testing import CliRunner, Result

from ottla.cli import pipeline as cli
from ottla.cli import pipeline_runs
from ottla.cli.main import command
from ottla.cli.pipeline_alerts import _last_words
from ottla.cli.pipeline_options import READ, with_config
from ottla.cli.pipeline_show import Bars, print_rows
from ottla.pipeline import running, touched
from ottla.pipeline.alerts.run import AlertSettings
from ottla.pipeline.cluster import options_of
from ottla.pipeline.lake import Lake
from ottla.pipeline.queries import QUERIES
from ottla.pipeline.running import Progress, first_line, position
from ottla.pipeline.session import NoJava
from ottla.pipeline.tables import VERSION
from tests.pipeline.parquet import put


def ottla(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["pipeline", *arguments])


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    Lake(str(tmp_path / "lake")).open(format="parquet", cluster_id="c")
    return tmp_path / "lake"


def refused(said: str, *arguments: str, code: int = 1) -> None:
    """A command ends with this exit code, and these words are in what it says."""
    result = ottla(*arguments)
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_without_java(lake: Path, monkeypatch: Any) -> None:
    def no_java() -> None:
        raise NoJava("Spark needs Java 17 or later, and there is none.")

    monkeypatch.setattr(sys.modules["ottla.pipeline.session"], "java_home", no_java)
    refused("Spark needs Java 17", "gold", "--full", "--lake", str(lake))


def test_without_the_extra(lake: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(pipeline_runs, "find_spec", lambda name: None if name == "pyspark" else object())
    refused("The pipeline needs pyspark.\n  pip install 'ottla[spark]'", "gold", "--lake", str(lake))


@pytest.mark.parametrize("mode", ["gold", "report", "vacuum"])
def test_without_a_lake_or_with_a_later_one(mode: str, lake: Path) -> None:
    refused("There is no lake in", mode, "--lake", str(lake / "none"))
    about = Lake(str(lake)).about() or {}
    Lake(str(lake)).write("lake.json", about | {"version": VERSION + 1})
    refused("use the ottla that wrote it, or a later one", mode, "--lake", str(lake))


def test_with_nothing_new(lake: Path) -> None:
    refused("Nothing has changed", "gold", "--lake", str(lake), code=0)


def test_where_no_broker_is(lake: Path) -> None:
    began = time.monotonic()
    refused("127.0.0.1:9", "stream", "-b", "127.0.0.1:9", "--lake", str(lake))
    assert time.monotonic() - began < 30
    # An address that is none is named as the option that was given, not as the source's.
    refused("--bootstrap-server is 'localhost'; allowed: host:port", "stream", "-b", "localhost", "--lake", str(lake))


def test_bars_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets where they are known to begin; rows of samples, whose position is a time."""
    shown = []
    bars = Bars("records")
    monkeypatch.setattr(bars, "_progress", object())
    monkeypatch.setattr(bars, "show", lambda *what: shown.append(what[:3]))
    done = {"offset_commits": Progress(7, 1, at=30), "log_end_samples": Progress(3, 1, at=1_795_393_475_940)}
    bars.streams(done, {"offset_commits": 45}, {"offset_commits": 20})
    bars.streams(done, {}, {"offset_commits": 20})
    samples = ("log_end_samples", 3, None)
    assert shown == [("offset_commits", 10, 25), samples, ("offset_commits", 10, None), samples]


def test_progress_counts_each_batch_once() -> None:
    def report(number: int, rows: int, end: int) -> dict[str, Any]:
        offset = f'{{"v": 1, "topics": {{"t": {{"id": "1", "next": {{"0": {end}, "1": 2}}}}}}}}'
        return {
            "batchId": number,
            "numInputRows": rows,
            "processedRowsPerSecond": 5.0,
            "durationMs": {"addBatch": 1, "triggerExecution": 1500},
            "sources": [{"endOffset": offset}],
        }

    found = Progress()
    for one in (report(0, 3, 3), report(0, 3, 3), report(1, 4, 7)):
        found.take(one)
    found.take({"batchId": 2, "numInputRows": 0, "durationMs": {"latestOffset": 1}, "sources": []})
    assert (found.rows, found.batches, found.at, found.batch_s) == (7, 2, 9, 1.5)


class Report:
    """One of Spark's, as the JVM gives it; counts how often it is asked for all it has."""

    whole = 0

    def __init__(self, number: int, second: int) -> None:
        self.number, self.second = number, second

    def batchId(self) -> int:
        return self.number

    def timestamp(self) -> str:
        return f"2026-11-22T10:00:{self.second:02}.000Z"

    def json(self) -> str:
        Report.whole += 1
        return json.dumps({"batchId": self.number})


class Query:
    """A stream that keeps its last hundred reports."""

    def __init__(self) -> None:
        self._jsq = self
        self.kept: list[Report] = []

    def recentProgress(self) -> list[Report]:
        return self.kept[-100:]


def test_reports_are_fetched_once() -> None:
    query = Query()
    reports = running.Reports(query)  # type: ignore[arg-type]
    assert reports.new() == []
    query.kept = [Report(0, 0), Report(1, 1)]
    assert [one["batchId"] for one in reports.new()] == [0, 1]
    assert reports.new() == []
    query.kept += [Report(2, 2), Report(2, 3)]  # nothing came, and then something
    assert [one["batchId"] for one in reports.new()] == [2, 2]
    query.kept += [Report(number, 4) for number in range(3, 203)]
    assert [one["batchId"] for one in reports.new()] == list(range(103, 203))
    assert (reports.new(), Report.whole) == ([], 104)


def test_logs_of_a_stream_outlive_many_runs_beside_it(lake: Path) -> None:
    first = running._new_log(Lake(str(lake)), "stream")
    for number in range(running.LOGS_KEPT + 5):
        (lake / "logs" / f"20270101T0000{number:02}-gold-1.log").touch()
    running._new_log(Lake(str(lake)), "gold")
    assert first.exists()
    assert len(list((lake / "logs").glob("*-gold-*.log"))) == running.LOGS_KEPT


def test_positions() -> None:
    assert position({"v": 1, "topics": {"a": {"id": "x", "next": {"0": 3, "1": 4}}}}) == 7
    assert position(None) == position("no json") == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[STREAM_FAILED] Query terminated.\nottla.pipeline.source.logs.DataLoss: it is gone\n\n at x", "it is gone"),
        ("java.lang.IllegalStateException: bad state\n  at y", "bad state"),
        ("plain words", "plain words"),
        ("", "RuntimeError"),
    ],
)
def test_errors_are_one_sentence(text: str, said: str) -> None:
    assert first_line(RuntimeError(text)) == said


@pytest.mark.parametrize(
    ("master", "tried"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://head:7077", "spark://head:7077"),
    ],
)
def test_tasks_are_tried_again_on_one_machine_too(master: str, tried: str) -> None:
    assert running.patient(master) == tried


def test_questions_need_no_spark(lake: Path) -> None:
    refused("storms", "query", "--lake", str(lake), code=0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["storm"], "There is no question 'storm'; did you mean 'storms'"),
        (["storms", "-p", "gruop=x"], "storms has no parameter 'gruop'; did you mean 'group'"),
        (["storms", "-p", "group"], "write NAME=VALUE"),
        (["storms", "--topic", "t"], "storms has no parameter 'topic'; there are group, since."),
        (["storms", "-p", "limit=3"], "an option of its own: --limit N."),
    ],
)
def test_questions_and_parameters_that_there_are_not(lake: Path, arguments: list[str], said: str) -> None:
    refused(said, "query", *arguments, "--lake", str(lake), code=2)


@pytest.fixture
def golden(lake: Path) -> Path:
    """With a run of rebalances of one group, which gold has just written."""
    at = datetime(2026, 11, 22, 10, tzinfo=UTC)
    row = {"cluster_id": "c", "group_id": "g", "started_at": at, "ended_at": at, "rebalances": 3, "commit_gap_ms": 9000}
    put(lake / "gold/rebalance_runs", "rebalance_runs", [row], at.date())
    there = Lake(str(lake))
    touched.note(there, touched.look(there, [20.0, {"a": 3.0}]), None)
    return lake


def test_answers_need_no_java_and_say_of_when_they_are(golden: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys.modules["ottla.pipeline.session"], "java_home", lambda: pytest.fail("Java is looked for"))
    said = ottla("query", "rebalances", "--format", "json", "--lake", str(golden))
    (row,) = json.loads(said.stdout)
    assert (row["cluster_id"], row["rebalances"], row["ended_at"]) == ("c", 3, "2026-11-22T10:00:00.000Z")
    built = datetime.fromisoformat(touched.noted(Lake(str(golden)))["at"])
    assert f"From gold tables built at {built:%Y-%m-%d %H:%M:%S} UTC.\n" in said.stderr
    assert "when a rebalance began, how long it took and why it came is not known" in said.stderr
    text = ottla("query", "rebalances", "--lake", str(golden)).stdout.splitlines()
    assert text[0].startswith("GROUP ID ") and text[1].split()[:1] == ["g"], "a lake is of one cluster"
    assert "There are no rows." in ottla("query", "rebalances", "--group", "x", "--lake", str(golden)).stderr
    with Lake(str(golden)).building():
        assert "rows may be missing: ask again" in ottla("query", "rebalances", "--lake", str(golden)).stderr
    put(golden / "silver/quarantine", "quarantine", [], date(2026, 11, 22))
    assert "More was read since: --refresh" in ottla("query", "rebalances", "--lake", str(golden)).stderr


def test_files_that_bring_no_rows_are_looked_at_once(golden: Path) -> None:
    """A batch without rows, or what vacuum removed: gold has nothing to build, and knows that it has looked."""
    (golden / "silver" / "quarantine" / "_spark_metadata").mkdir(parents=True)
    assert "More was read since" in ottla("query", "rebalances", "--lake", str(golden)).stderr
    said = ottla("gold", "--slo", "20s", "--slo-group", "a=3s", "--lake", str(golden))
    assert (said.exit_code, "Nothing has changed" in said.stderr) == (0, True)
    assert "More was read since" not in ottla("query", "rebalances", "--lake", str(golden)).stderr


def test_a_lake_without_rows_is_not_noted_as_built(lake: Path) -> None:
    for _ in range(2):
        assert "last built (never)" in ottla("gold", "--lake", str(lake)).stderr


def test_refreshing_builds_with_the_objectives_that_were(golden: Path, monkeypatch: Any) -> None:
    asked = []
    monkeypatch.setattr(cli, "_build", lambda config, *what, **how: asked.append((config.slo, config.slo_groups)))
    assert ottla("query", "rebalances", "--refresh", "--lake", str(golden)).exit_code == 0
    assert asked == [(20.0, {"a": 3.0})]


def test_tables_that_this_ottla_did_not_build_as_a_whole(golden: Path) -> None:
    noted = json.loads((golden / "gold.json").read_text())
    (golden / "gold.json").write_text(json.dumps(noted | {"version": VERSION - 1, "objectives": "old"}))
    whole = "These gold tables were not built as a whole by this ottla: --refresh builds them anew."
    assert whole in ottla("query", "rebalances", "--lake", str(golden)).stderr
    (golden / "gold.json").unlink()
    there, day = Lake(str(golden)), date(2026, 11, 22)
    put(golden / "silver/quarantine", "quarantine", [], date(2026, 11, 23))
    touched.note(there, touched.look(there, [20.0, {"a": 3.0}]), day)  # as `gold --since` in a new lake
    assert whole in ottla("query", "rebalances", "--lake", str(golden)).stderr
    refused("has no table lag_by_topic yet: ottla pipeline gold", "query", "lag", "--lake", str(golden))


def test_rows_are_printed_in_utc() -> None:
    at = datetime(2026, 11, 22, 11, tzinfo=timezone(timedelta(hours=1)))
    row = {"group_id": "g\n", "at": at, "members": ["a", "b"], "lag": 1.25, "n": None}
    times = pa.field("at", pa.timestamp("us", tz="UTC"))
    asked = pa.Table.from_pylist([row])
    asked = asked.set_column(1, times, asked["at"].cast(times.type))
    runner = CliRunner()

    @click.command()
    @click.option("--json", "as_json", is_flag=True)
    def show(as_json: bool) -> None:
        print_rows(asked, 10, as_json)

    text = runner.invoke(show).output
    assert text.splitlines()[1].split("  ")[0] == "g\\n"
    assert "2026-11-22T10:00:00.000Z" in text
    (row,) = json.loads(runner.invoke(show, ["--json"]).output)
    assert row == {"group_id": "g\n", "at": "2026-11-22T10:00:00.000Z", "members": ["a", "b"], "lag": 1.25, "n": None}


def test_help_says_which_questions_take_what() -> None:
    said = ottla("query", "--help").output
    for name, one in QUERIES.items():
        assert f"{name} " in said and one.parameters
    assert "[group, topic, since]" in said and "limit]" not in said


@pytest.mark.parametrize("mode", ["stream", "available-now", "backfill", "gold", "report", "query", "vacuum"])
def test_who_makes_a_lake(mode: str) -> None:
    said = " ".join(ottla(mode, "--help").output.split())
    assert ("made if it is not there" in said) == (mode in ("stream", "available-now", "backfill"))


def test_what_becomes_of_alerts_that_are_stopped() -> None:
    def settings(checkpoint: str) -> AlertSettings:
        return AlertSettings({}, checkpoint, None, None, starting="latest")

    assert "remembers nothing: --starting-offsets latest." in _last_words(settings("/tmp/x/checkpoints"), "/tmp/x")
    assert "goes on from here" in _last_words(settings("/srv/alerts"), "/tmp/x")


def test_the_source_is_told_what_commands_are_told_of_security(tmp_path: Path) -> None:
    """Of TLS and SASL, by the names of its options; `ottla pipeline` and `ottla lake` hand them on."""
    found: list[Any] = []

    @click.command()
    @with_config(READ)
    def command(config: Any) -> None:
        found.append(options_of(config).secured.client_options())

    ca = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(ca)
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SASL_SSL\nssl.ca.location={ca}\nsasl.username=of-file\nacks=1")
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "OTTLA_PASSWORD": "my-secret"}
    arguments = "-b", "h:1", "--command-config", str(file), "--username", "alice", "--sasl-mechanism", "SCRAM-SHA-256"
    result = CliRunner(env=environment).invoke(command, arguments)
    assert result.exit_code == 0, result.output
    assert found == [
        {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(ca),
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "my-secret",
        }
    ]
