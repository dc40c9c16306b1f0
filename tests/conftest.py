"""Settings of the whole test command: what hypothesis may do, and that Ctrl-C is heard.

By default every run tries the same examples, so a failure on one machine is a failure on all. ``OTTLA_TESTS=long``
tries ten times as many, chosen at random; a failure then prints the line that reproduces it. Nothing is remembered
between runs, and nothing is written into the source tree. ``--share PERCENT`` runs that part of the chosen tests, and
another one each day.
"""

import os
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

LONG = os.environ.get("OTTLA_TESTS") == "long"
ROOT = str(Path(__file__).parents[1])

# The demos are not installed. Last, so that nothing but `examples` is ever found there: rooms are imported as ottla.….
if ROOT not in sys.path:
    sys.path.append(ROOT)

set_hypothesis_home_dir(Path(tempfile.gettempdir()) / f"ottla-hypothesis-{os.getuid()}")
settings.register_profile(
    "ottla",
    derandomize=True,
    database=None,
    deadline=None,  # shared machines stall; no test here is about time
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", settings.get_profile("ottla"), derandomize=False, max_examples=1000)
settings.load_profile("long" if LONG else "ottla")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs the tests in the background has them ignore it, and with them every command that they run.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    help_ = "run so many percent of the tests, 1 to 100, by the day; one test at least"
    parser.addoption("--share", type=int, choices=range(1, 101), metavar="PERCENT", help=help_)
    parser.addoption("--day", default=f"{datetime.now(UTC):%Y%m%d}", help="the day that chooses them, as 20261123")


def pytest_report_header(config: pytest.Config) -> str | None:
    if share := config.getoption("share"):
        return f"share: {share} percent; --share {share} --day {config.getoption('day')} runs the same tests again"
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if share := config.getoption("share"):
        count = -(-len(items) * share // 100)  # rounded up: a run without any test fails
        chosen = {*Random(config.getoption("day")).sample(range(len(items)), count)}
        config.hook.pytest_deselected(items=[item for at, item in enumerate(items) if at not in chosen])
        items[:] = [item for at, item in enumerate(items) if at in chosen]


def pytest_configure(config: pytest.Config) -> None:
    """kafka-python reads Kafka's schema files in a way that Python 3.11 and 3.12 call deprecated, a hundred times."""
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")
