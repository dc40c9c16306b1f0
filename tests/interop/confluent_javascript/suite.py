"""confluent's JavaScript client. Its prebuilt library is not in the registry: where it cannot be had it is built here,
which takes a minute or two and needs the headers of what librdkafka links.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.interop.node import needs_node, node_version, package_version, packages, run_node
from tests.interop.suite import QUICK_CONSUMER_GROUPS, NotAvailable, Place, Suite, checked

PACKAGE = "@confluentinc/kafka-javascript"
HEADERS = {
    "openssl/ssl.h": "libssl-dev",
    "zlib.h": "zlib1g-dev",
    "zstd.h": "libzstd-dev",
    "curl/curl.h": "libcurl4-openssl-dev",
    "sasl/sasl.h": "libsasl2-dev",
}
_PLACES = ("/usr/include", "/usr/local/include")


def _absent() -> list[str]:
    multiarch = [str(path) for path in Path("/usr/include").glob("*-linux-gnu*")]
    return [
        package
        for header, package in HEADERS.items()
        if not any((Path(place) / header).exists() for place in (*_PLACES, *multiarch))
    ]


def _install_headers() -> None:
    absent = _absent()
    if not absent:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NotAvailable(f"to build {PACKAGE} these are needed: {' '.join(absent)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    checked(["apt-get", "-q", "update"], env=quiet)
    checked(["apt-get", "-q", "install", "-y", "--no-install-recommends", *absent], env=quiet)


def prepare(place: Place) -> None:
    """Fetch the package and, where its library cannot be had, build it against the system's libraries."""
    if not any(place.cache.glob("installed-*")) and shutil.which("g++") and shutil.which("make"):
        _install_headers()
    # Its makefile starts a compiler for every file at once; make's limit on the load holds that back.
    packages(place, {"CKJS_LINKING": "dynamic", "MAKEFLAGS": f"-l{(os.cpu_count() or 1) + 1}"})
    checked(["node", "-e", f"require('{PACKAGE}')"], cwd=place.cache)


def versions(place: Place) -> str:
    code = f"process.stdout.write(require('{PACKAGE}').librdkafkaVersion)"
    librdkafka = checked(["node", "-e", code], cwd=place.cache).strip()
    return f"{PACKAGE} {package_version(place, PACKAGE)} (librdkafka {librdkafka}), {node_version()}"


SUITE = Suite(
    title="confluent's JavaScript client",
    language="JavaScript",
    missing=needs_node,
    prepare=prepare,
    versions=versions,
    settings={"group.min.session.timeout.ms": 500, **QUICK_CONSUMER_GROUPS},
    run=run_node,
)
