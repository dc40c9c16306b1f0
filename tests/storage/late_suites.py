"""Runs a suite on brokers whose logs are late: ``python -m tests.storage.late_suites MODULE …``."""

import runpy
import sys

from ottla.testing import BrokerProcess

on_time = BrokerProcess.command


def late_command(process):
    """The command of a broker with `tests.storage.late_cli` in the place of ``ottla``."""
    return ["tests.storage.late_cli" if word == "ottla.cli" else word for word in on_time(process)]


if __name__ == "__main__":
    del sys.argv[0]
    BrokerProcess.command = late_command
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
