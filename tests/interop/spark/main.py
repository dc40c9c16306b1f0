"""All tests, or those that a regular expression chooses: ``python -m tests.interop.spark.main HOST:PORT [REGEXP]``."""

from tests.interop.python.harness import play
from tests.interop.spark import batch, restart, secured, streams  # noqa: F401 - they register their tests
from tests.interop.spark.harness import TESTS, T

if __name__ == "__main__":
    play("kafka-python", [], alone=TESTS, stage=T)
