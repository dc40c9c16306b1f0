"""The runner of the suites: how results are read, judged and printed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.interop import report, results
from tests.interop.programs import go_test, json_lines, junit, rust_tests
from tests.interop.results import Record, known_reason, unexpected
from tests.interop.run import load, names, of_the_day, run_suite
from tests.interop.suite import NotAvailable, Place, Result, Run, Suite, checked, needs


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def suite(**changes: object) -> Suite:
    fields: dict[str, object] = {
        "name": "tried",
        "title": "Tried",
        "language": "Python",
        "versions": lambda place: "tried 1.0",
        "run": lambda run: [],
    }
    return Suite(**(fields | changes))  # type: ignore[arg-type]


def test_lines_of_json_are_results_and_the_rest_explains_a_failure() -> None:
    code = """if 1:
        print('{"test": "a", "outcome": "passed", "seconds": 0.5}')
        print("what went wrong")
        print('{"test": "b", "outcome": "failed"}')
        print('{"test": "c", "outcome": "skipped", "reason": "no codec"}')
        print('{"neither": 1}')
    """
    found = list(json_lines(python(code)))
    assert found == [
        Result("a", "passed", "", 0.5),
        Result("b", "failed", "what went wrong"),
        Result("c", "skipped", "no codec"),
    ]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("pass", "it reported no test"),
        ("print('oh no'); raise SystemExit(3)", "it ended with 3\noh no"),
        ("import os; os.kill(os.getpid(), 9)", "it ended with -9"),
    ],
)
def test_a_program_that_says_nothing_fails(code: str, reason: str) -> None:
    [result] = json_lines(python(code))
    assert (result.test, result.outcome, result.reason.strip()) == ("(program)", "failed", reason)


def test_a_program_that_dies_after_a_result_fails_besides() -> None:
    code = """print('{"test": "a", "outcome": "passed"}', flush=True); raise SystemExit(1)"""
    assert [one.outcome for one in json_lines(python(code))] == ["passed", "failed"]


def test_a_program_that_hangs_is_killed_with_its_children() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    [result] = json_lines(python(code), timeout_s=0.3)
    assert result.outcome == "failed"
    assert "its time was up" in result.reason


def test_events_of_go() -> None:
    code = r"""if 1:
        print('{"Action":"run","Test":"TestA"}')
        print('{"Action":"output","Test":"TestA","Output":"=== RUN   TestA\\n"}')
        print('{"Action":"output","Test":"TestA","Output":"    a.go:7: wrong\\n"}')
        print('{"Action":"fail","Test":"TestA","Elapsed":1.5}')
        print('{"Action":"run","Test":"TestB"}')
        print('{"Action":"pass","Test":"TestB"}')
        print('{"Action":"run","Test":"TestC"}')
        print('{"Action":"fail"}')
        raise SystemExit(1)
    """
    assert list(go_test(python(code))) == [
        Result("TestA", "failed", "    a.go:7: wrong", 1.5),
        Result("TestB", "passed"),
        Result("TestC", "failed", "never ended: it ended with 1"),
    ]


def test_lines_of_rust() -> None:
    code = r"""if 1:
        print("running 3 tests")
        print("test one ... ok")
        print("test two ... FAILED")
        print("test three ... ignored, why")
        print("\nfailures:\n\n---- two stdout ----\nit broke\n\nfailures:\n    two\n")
        print("test result: FAILED. 1 passed; 1 failed; 1 ignored")
        raise SystemExit(101)
    """
    one, three, two = rust_tests(python(code))
    assert (one, three) == (Result("one", "passed"), Result("three", "skipped", "why"))
    assert (two.test, two.outcome, two.reason.splitlines()[0]) == ("two", "failed", "it broke")


def test_a_rust_program_that_hangs_fails() -> None:
    code = "import time; print('test one ... ok', flush=True); time.sleep(60)"
    assert [one.outcome for one in rust_tests(python(code), timeout_s=0.5)] == ["passed", "failed"]


def test_a_rust_program_that_aborts_after_a_result_fails_besides() -> None:
    code = "import os; print('running 2 tests'); print('test one ... ok', flush=True); os.abort()"
    one, program = rust_tests(python(code))
    assert one == Result("one", "passed")
    assert (program.test, program.outcome, program.reason.splitlines()[0]) == (
        "(program)",
        "failed",
        "it ended with -6",
    )


def test_reports_of_pytest(tmp_path: Path) -> None:
    tests = tmp_path / "sample.py"
    tests.write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): assert 1 == 2\ndef test_c(): pytest.skip('why')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "--rootdir"]
    found = {one.test.rpartition("::")[2]: one for one in junit([*command, str(tmp_path), str(tests)], cwd=tmp_path)}
    assert {name: one.outcome for name, one in found.items()} == {
        "test_a": "passed",
        "test_b": "failed",
        "test_c": "skipped",
    }
    assert "assert 1 == 2" in found["test_b"].reason
    assert found["test_c"].reason == "why"


def test_only_a_failure_without_a_known_reason_counts() -> None:
    known = {"sasl_*": "needs SASL"}
    found = [Result("sasl_plain", "failed"), Result("b", "failed"), Result("c", "skipped"), Result("d", "passed")]
    assert [one.test for one in unexpected(suite(known=known), found)] == ["b"]
    assert known_reason(known, "sasl_plain") == "needs SASL"


def test_a_missing_toolchain_skips_with_a_visible_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_suite(suite(missing=needs("no-such-program")))
    assert "SKIPPED: not installed: no-such-program" in capsys.readouterr().out


def test_what_cannot_be_fetched_skips_with_a_visible_reason(capsys: pytest.CaptureFixture[str]) -> None:
    def prepare(place: Place) -> None:
        checked(python("print('no network'); raise SystemExit(1)"))

    assert run_suite(suite(prepare=prepare))
    assert "no network" in capsys.readouterr().out
    with pytest.raises(NotAvailable):
        checked(["no-such-program"])


def test_a_suite_runs_on_a_broker_of_its_own_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "KEPT", tmp_path / "kept")
    monkeypatch.setenv("OTTLA_INTEROP_CACHE", str(tmp_path / "cache"))
    seen: list[Run] = []

    def run(run: Run) -> list[Result]:
        seen.append(run)
        assert run.broker is not None
        return [Result("a", "passed"), Result("b", "failed", "it | broke\nbadly")]

    assert not run_suite(suite(run=run))
    assert run_suite(suite(run=run, known={"b": "it needs what is not there"}))
    [record] = results.load()
    assert (record.passed, record.failed, record.versions) == (1, 1, "tried 1.0")
    assert record.not_passed == [{"test": "b", "outcome": "failed", "reason": "it needs what is not there"}]
    assert seen[0].bootstrap.startswith("127.0.0.1:")
    assert not seen[0].scratch.exists()
    monkeypatch.setattr(report, "load", lambda: [record])
    assert "* failed (1): it needs what is not there\n  `b`" in report.render()


def test_a_suite_may_run_on_several_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_INTEROP_CACHE", str(tmp_path / "cache"))
    seen: list[str] = []

    def run(run: Run) -> list[Result]:
        seen.extend(run.bootstrap.split(","))
        return [Result("a", "passed")]

    assert run_suite(suite(run=run), nodes=2, keep=False)
    assert len({*seen}) == 2


def test_a_suite_may_be_run_again_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "KEPT", tmp_path / "kept")
    monkeypatch.setenv("OTTLA_INTEROP_CACHE", str(tmp_path / "cache"))
    runs: list[list[Result]] = [
        [Result("a", "passed"), Result("b", "failed", "too slow")],
        [Result("a", "failed", "too slow"), Result("b", "passed")],
    ]
    assert run_suite(suite(run=lambda run: runs.pop(0)), again=3)
    [record] = results.load()
    assert (record.passed, record.failed, record.unsteady) == (2, 0, ["b"])
    monkeypatch.setattr(report, "load", lambda: [record])
    assert "* passed only when run again: `b`" in report.render()


def test_a_sample_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "KEPT", tmp_path / "kept")
    monkeypatch.setenv("OTTLA_INTEROP_CACHE", str(tmp_path / "cache"))
    sampled = suite(run=lambda run: [Result("a", "passed")], sampled=True)
    assert run_suite(sampled, options={"sample": "1"})
    assert not results.load()
    assert run_suite(sampled)
    assert [record.passed for record in results.load()] == [1]


def test_of_our_scenarios_so_many_minutes_run_each_day(monkeypatch: pytest.MonkeyPatch) -> None:
    every = names()
    assert {"librdkafka", "kcat", "java"} < {*every}
    records = [results.Record(name, name, "Java", "1.0", "", seconds=60) for name in every]
    monkeypatch.setattr("tests.interop.run.read_records", lambda: records)
    chosen = [of_the_day(every, 5, seed) for seed in ("1", "1", "2")]
    assert chosen[0] == chosen[1] != chosen[2]
    assert all(len(some) == 5 and not any(load(name).foreign for name in some) for some in chosen)
    assert len(of_the_day(every, 0.5, "1")) == 1, "a suite that takes longer runs alone"


def test_a_suite_that_fails_every_time_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_INTEROP_CACHE", str(tmp_path / "cache"))
    runs = [[Result("b", "failed")] for _ in range(2)]
    assert not run_suite(suite(run=lambda run: runs.pop(0)), keep=False, again=1)
    assert not runs


def test_a_suite_without_results_is_not_as_it_should_be() -> None:
    assert not run_suite(suite())


def test_the_page_is_printed_from_what_is_kept() -> None:
    assert report.PAGE.read_text() == report.render(), "run: python -m tests.interop.report"


def test_every_suite_can_be_loaded_and_is_named_as_its_folder() -> None:
    for name in names():
        assert load(name).name == name


def test_every_record_is_of_a_suite_that_exists() -> None:
    assert {record.name for record in results.load()} <= set(names())


def test_records_say_why_tests_did_not_pass() -> None:
    for record in results.load():
        assert isinstance(record, Record)
        assert all(row["reason"] for row in record.not_passed), record.name
