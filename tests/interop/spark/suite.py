"""Spark's own ``kafka`` source and sink: pyspark with the connector of its version."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from tests.interop.node import restarts
from tests.interop.programs import json_lines
from tests.interop.suite import NotAvailable, Place, Result, Run, Suite, checked

POM = Path(__file__).parent / "pom.xml"
# Another version of the one small jar that some repositories lack in Spark's own version.
TOKEN_PROVIDER_ELSE = "4.0.0"


def missing() -> str:
    absent = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    major = printed.partition('version "')[2].partition(".")[0]
    return "" if major.isdigit() and int(major) >= 17 else f"Java 17 is needed, this is {printed.splitlines()[0]}"


def spark_version() -> str:
    return POM.read_text("utf-8").partition("<spark.version>")[2].partition("<")[0]


def prepare(place: Place) -> None:
    """pyspark in an environment of its own, and the connector's jars."""
    mark = zlib.crc32(POM.read_bytes() + sys.version.encode())
    done = place.cache / f"installed-{mark:08x}"
    if done.exists():
        return
    venv, jars = place.cache / "venv", place.cache / "jars"
    checked([sys.executable, "-m", "venv", "--clear", str(venv)])
    # setuptools is what pyspark is built with; nothing else is needed beside it.
    checked([str(venv / "bin" / "python"), "-m", "pip", "install", "-q", f"pyspark=={spark_version()}"])
    shutil.rmtree(jars, ignore_errors=True)
    copy = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    copy += ["-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    try:
        checked(copy)
    except NotAvailable:
        shutil.rmtree(jars, ignore_errors=True)
        checked([*copy, f"-Dtoken.provider.version={TOKEN_PROVIDER_ELSE}"])
    for old in place.cache.glob("installed-*"):
        old.unlink()
    done.touch()


def versions(place: Place) -> str:
    jars = {jar.stem.rpartition("-")[0]: jar.stem.rpartition("-")[2] for jar in (place.cache / "jars").glob("*.jar")}
    said = f"pyspark {spark_version()}, spark-sql-kafka {jars['spark-sql-kafka-0-10_2.13']}"
    token = jars["spark-token-provider-kafka-0-10_2.13"]
    if token != spark_version():
        said += f" (its token provider {token})"
    return f"{said}, kafka-clients {jars['kafka-clients']}"


def run(run: Run) -> Iterator[Result]:
    python = str(run.place.cache / "venv" / "bin" / "python")
    command = [python, str(run.place.source / "main.py"), *filter(None, run.options.get("only", "").split(","))]
    with restarts(run) as directory:
        env = {
            "BOOTSTRAP": run.bootstrap,
            "RESTARTS": directory,
            "SCRATCH": str(run.scratch),
            "JARS": ":".join(str(jar) for jar in sorted((run.place.cache / "jars").glob("*.jar"))),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": python,
        }
        yield from json_lines(command, env=env, timeout_s=700)


SUITE = Suite(
    name="spark",
    title="Spark",
    language="Python and Scala",
    missing=missing,
    prepare=prepare,
    versions=versions,
    run=run,
)
