"""A Spark session that suits the pipeline, and the Java that it runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17


class NoJava(Exception):
    """There is no Java that Spark runs on; the message says what to do."""


def java_home() -> Path:
    """The home of a Java that Spark runs on: ``JAVA_HOME`` or the one on the path.

    Raises:
        NoJava: there is none of version 17 or later.
    """
    seen = []
    for where, home in _homes():
        version = _version(home / "bin" / "java")
        if version is not None and version >= OLDEST_JAVA:
            return home
        seen.append(f"{where} {home} is {'no Java' if version is None else f'Java {version}'}")
    said = "".join(f" ({one})" for one in seen)
    raise NoJava(
        f"Spark needs Java {OLDEST_JAVA} or later, and there is none{said}. Install one, e.g. with "
        "`apt-get install openjdk-17-jre-headless`."
    )


def _homes() -> list[tuple[str, Path]]:
    homes = []
    if named := os.environ.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(named)))
    if found := shutil.which("java"):
        homes.append(("java on the path", Path(found).resolve().parent.parent))
    return homes


def _version(java: Path) -> int | None:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


def session(name: str = "ottla", master: str = "local[*]", **conf: str) -> SparkSession:
    """The Spark session of this process, with the source ``ottla`` registered.

    Args:
        name: shown in Spark's pages.
        master: where it runs, as Spark takes it.
        conf: settings of Spark's besides, ``_`` for ``.``: ``spark_driver_memory="2g"``.

    Raises:
        NoJava: see `java_home`.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    # Workers would otherwise be the python3 of the path, which has nothing of this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    from ottla.pipeline.source import register

    builder = SparkSession.builder.appName(name).master(master)
    own = {key.replace("_", "."): value for key, value in conf.items()}
    for key, value in (SETTINGS | _local(master) | _quiet() | own).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",  # off, a source that takes filters cannot be read at all
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96, the default, says nothing of UTC
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.ui.showConsoleProgress": "false",
}


def _quiet() -> dict[str, str]:
    """Settings that suppress the JVM's usual eight lines but one; an installation of Spark has its own."""
    if "SPARK_CONF_DIR" in os.environ or "SPARK_HOME" in os.environ:
        return {}
    words = Path(__file__).with_name("log4j2.properties").resolve().as_uri()
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={words}"}


def _local(master: str) -> dict[str, str]:
    """Settings of a session on one machine: no pages, no ports to the outside, few and small tasks."""
    if not master.startswith("local"):
        return {}
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "4",
    }


def main() -> int:
    """Say which Java there is, or why there is none: 0 or 1, for scripts."""
    try:
        home = java_home()
    except NoJava as error:
        print(f"skipped: {error}")
        return 1
    print(f"Java: {home}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
