"""What the suites in Java share: jars from Maven Central, and javac."""

from __future__ import annotations

import os
import shutil
import time
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.interop.suite import NotAvailable, checked

# Quick to start, and content with one core.
JAVA = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx512m"]
_ASK_AGAIN_AFTER_S = 24 * 3600


def java_version() -> str:
    """``java 17.0.15``."""
    return f"java {checked(['java', '--version']).split()[1]}"


def fetch_jars(pom: Path, target: Path, properties: Mapping[str, str] | None = None) -> None:
    """Copy what the pom needs to the directory. Versions that are ranges give the newest; asked once a day.

    Raises:
        NotAvailable: there is no Maven, or it could not fetch them, and they were never fetched before.
    """
    values = dict(properties or {})
    mark = target / f"complete-{zlib.crc32(pom.read_bytes() + repr(sorted(values.items())).encode()):08x}"
    if mark.exists() and time.time() - mark.stat().st_mtime < _ASK_AGAIN_AFTER_S:
        return
    fresh = target.with_name(f"{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    try:
        if shutil.which("mvn") is None:
            raise NotAvailable("mvn was not found, and it is needed to fetch the jars")
        checked([*command, *(f"-D{name}={value}" for name, value in values.items())])
    except NotAvailable:
        if mark.exists():
            return  # yesterday's will do where nothing can be reached
        raise
    (fresh / mark.name).touch()
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


def compile_java(sources: Iterable[Path], jars: Path, classes: Path) -> None:
    """Compile the files into the directory, unless it was done with the same sources and jars.

    Raises:
        NotAvailable: javac refused.
    """
    files = sorted(sources)
    names = "".join(sorted(os.listdir(jars)))
    mark = classes / f"compiled-{zlib.crc32(names.encode() + b''.join(file.read_bytes() for file in files)):08x}"
    if mark.exists():
        return
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    # --release: the same classes from whichever javac there is.
    checked(["javac", "--release", "17", "-d", str(classes), "-cp", f"{jars}/*", *map(str, files)])
    mark.touch()


def jar_version(jars: Path, artifact: str) -> str:
    """``4.4.0`` of kafka-clients-4.4.0.jar.

    Raises:
        NotAvailable: there is no such jar.
    """
    for jar in jars.glob(f"{artifact}-*.jar"):
        version = jar.name.removeprefix(f"{artifact}-").removesuffix(".jar")
        if version[:1].isdigit():
            return version
    raise NotAvailable(f"{artifact} was not among the jars")
