"""One Spark session for all tests of the pipeline; none of them runs where Spark or Arrow are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

if find_spec("pyarrow") is None or find_spec("pyspark") is None:
    collect_ignore_glob = ["*"]  # `make test-spark` installs them


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/pipeline/" in str(item.path):
            item.add_marker(pytest.mark.spark)


JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""Each plan of a test runs once, so the optimizing compiler works for nothing: it took nearly half of all CPU time."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """On two cores; tests that need it are skipped, with the reason, where there is no Java."""
    from ottla.pipeline.session import NoJava, session

    try:
        conf = {"spark_driver_memory": "1g", "spark_driver_extraJavaOptions": JAVA_OPTIONS}
        session_ = session("ottla tests", "local[2]", **conf)
    except NoJava as error:
        pytest.skip(str(error))
    yield session_
    session_.stop()
