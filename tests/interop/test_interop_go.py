"""What the Go suites share: which versions go.mod asks for, and how a program has the broker restarted."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess
from tests.interop.go_programs import names_of_tests, program, required, run_scenarios
from tests.interop.suite import NotAvailable, Place, Run, sampled

ASKS_FOR_A_RESTART = """#!/bin/sh
touch "$RESTARTS/wanted-1"
while [ ! -e "$RESTARTS/done-1" ]; do sleep 0.05; done
echo '{"test": "broker_restart", "outcome": "passed"}'
"""


def test_go_mod_says_which_version(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text(
        "module x\n\nrequire example.com/one v1.2.3\n\n"
        "require (\n\texample.com/two v0.4.0\n\texample.com/three v5.0.0 // indirect\n)\n"
    )
    assert required(tmp_path, "example.com/one") == "v1.2.3"
    assert required(tmp_path, "example.com/two") == "v0.4.0"
    with pytest.raises(NotAvailable, match=r"example\.com/four"):
        required(tmp_path, "example.com/four")


def test_a_sample_is_the_seeds(tmp_path: Path) -> None:
    (tmp_path / "a_test.go").write_text("func TestOne(t *testing.T) {\n}\n\nfunc helper(t *testing.T) {\n}\n")
    (tmp_path / "b_test.go").write_text("".join(f"func Test{n}(test *testing.T) {{}}\n" for n in range(8)))
    every = names_of_tests(tmp_path)
    assert every == [*(f"Test{n}" for n in range(8)), "TestOne"]
    said: list[str] = []
    samples = [sampled(every, 3, seed, said.append) for seed in ("1", "1", "2")]
    assert samples[0] == samples[1] != samples[2]
    assert all(len(some) == 3 and set(some) < set(every) for some in samples)
    assert said[0] == f"sample=1: {', '.join(samples[0])}"


@pytest.mark.e2e
def test_a_program_may_have_its_broker_restarted(tmp_path: Path) -> None:
    place = Place(tmp_path / "played", tmp_path)
    program(place).write_text(ASKS_FOR_A_RESTART)
    program(place).chmod(program(place).stat().st_mode | stat.S_IXUSR)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with BrokerProcess(tmp_path / "data") as broker:
        first = broker.pid
        run = Run(place, broker.bootstrap_servers, broker, scratch, print, {"timeout": "60"})
        [result] = run_scenarios(run)
        assert (result.test, result.outcome) == ("broker_restart", "passed")
        assert broker.pid != first
        assert broker.bootstrap_servers == run.bootstrap
