"""Spark's own ``kafka`` source and sink: pyspark with the connector of its version."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

from tests.interop.programs import scenarios
from tests.interop.python.clients import ROOT
from tests.interop.python_envs import environment
from tests.interop.suite import NotAvailable, Place, Result, Run, Suite, checked, needs

KAFKA_PYTHON = "kafka-python==3.0.12"
POM = Path(__file__).parent / "pom.xml"
# Another version of the one small jar that some repositories lack in Spark's own version.
TOKEN_PROVIDER_ELSE = "4.0.0"


def missing() -> str:
    if absent := needs("java", "mvn")():
        return absent
    printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    major = printed.partition('version "')[2].partition(".")[0]
    return "" if major.isdigit() and int(major) >= 17 else f"Java 17 is needed, this is {printed.splitlines()[0]}"


def spark_version() -> str:
    return POM.read_text("utf-8").partition("<spark.version>")[2].partition("<")[0]


def requirements() -> list[str]:
    return [f"pyspark=={spark_version()}", KAFKA_PYTHON]


def prepare(place: Place) -> None:
    """pyspark in an environment of its own, and the connector's jars."""
    environment(place, "venv", *requirements())
    jars = place.cache / "jars"
    done = jars / f"complete-{zlib.crc32(POM.read_bytes()):08x}"
    if done.exists():
        return
    copy = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    copy += ["-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    shutil.rmtree(jars, ignore_errors=True)
    try:
        checked(copy)
    except NotAvailable:
        shutil.rmtree(jars, ignore_errors=True)
        checked([*copy, f"-Dtoken.provider.version={TOKEN_PROVIDER_ELSE}"])
    done.touch()


def versions(place: Place) -> str:
    jars = {jar.stem.rpartition("-")[0]: jar.stem.rpartition("-")[2] for jar in (place.cache / "jars").glob("*.jar")}
    said = f"pyspark {spark_version()}, spark-sql-kafka {jars['spark-sql-kafka-0-10_2.13']}"
    token = jars["spark-token-provider-kafka-0-10_2.13"]
    if token != spark_version():
        said += f" (its token provider {token})"
    return f"{said}, kafka-clients {jars['kafka-clients']}"


def run(run: Run) -> Iterator[Result]:
    """``--option only=REGEXP`` chooses tests."""
    python = str(environment(run.place, "venv", *requirements()))
    command = [python, "-m", "tests.interop.spark.main", run.bootstrap, run.options.get("only", "")]
    env = {
        "SCRATCH": str(run.scratch),
        "JARS": ":".join(str(jar) for jar in sorted((run.place.cache / "jars").glob("*.jar"))),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": python,
    }
    return scenarios(run, command, cwd=ROOT, env=env, timeout_s=700)


SUITE = Suite(
    title="Spark",
    language="Python and Scala",
    missing=missing,
    prepare=prepare,
    versions=versions,
    run=run,
)
