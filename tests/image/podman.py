"""Podman as root, apart from the machine: images in a cache, containers and networks in namespaces of their own.

When the namespaces' first process ends, however that comes about, the kernel ends all others and removes bridges and
routes with them. It asks for less than Podman usually has: where no registry answers, Debian stands in for the base
image, limits are not raised, and neither cgroups nor systemd are used.
"""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
import subprocess
from pathlib import Path
from typing import IO

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla-containers"
PACKAGES = "podman crun netavark aardvark-dns iptables catatonit debootstrap"
"""Debian's packages that have all that is needed."""
NEEDED = ("podman", "crun", "catatonit", "iptables", "ip", "unshare")
PULL_WITHIN_S = 120
LIMIT = 8192
"""How many files and processes a container may have: enough for Spark."""
MIRROR = "http://deb.debian.org/debian"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
STANDS_IN = "ottla.stands-in"
"""A label of base images that are none."""

WITHIN = """
set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm  # Podman's locks
# crun refuses cgroups of both versions, and this needs none.
if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
ip link set lo up
"$@"
exit $?  # so that the shell stays, and collects the processes whose parents ended
"""


class Unavailable(Exception):
    """There is no engine here; the message says what is missing."""


def apart(command: list[str], *, network: bool) -> list[str]:
    """The command that runs a command in namespaces of its own, with the machine's network or none but Podman's."""
    own = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *([] if network else ["--net"])]
    return ["unshare", *own, "sh", "-c", WITHIN, "sh", *command]


def require_apart() -> None:
    """See that a command can run apart.

    Raises:
        Unavailable: this root may not make namespaces, as in most containers.
    """
    tried = subprocess.run(apart(["true"], network=False), capture_output=True, text=True)
    if tried.returncode:
        raise Unavailable(f"Podman would need namespaces of its own: {tried.stderr.strip()}")


def alone() -> IO[str]:
    """A lock for as long as a run lasts: runs share the cache, and do not see each other's Podman locks."""
    lock = (CACHE / "lock").open("w", encoding="utf-8")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def prepare() -> None:
    """Set the variables by which `podman` and `podman-compose` work here.

    Raises:
        Unavailable: a program is missing, or the right to use it.
    """
    if os.geteuid() != 0:
        raise Unavailable("Docker with its compose plugin does not answer, and Podman is used here as root only")
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        raise Unavailable(
            f"neither Docker with its compose plugin nor {', '.join(missing)}; apt-get install {PACKAGES}"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    containers, storage = CACHE / "containers.conf", CACHE / "storage.conf"
    containers.write_text(_containers_conf(), encoding="utf-8")
    storage.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{CACHE}/store"\nrunroot = "/run/ottla-containers"\n',
        encoding="utf-8",
    )
    os.environ.update(
        CONTAINERS_CONF=str(containers),
        CONTAINERS_STORAGE_CONF=str(storage),
        BUILDAH_ISOLATION="chroot",
        BUILDAH_FORMAT="docker",  # the other one has no HEALTHCHECK
    )


def _containers_conf() -> str:
    # Podman would raise them for root, which not every root may.
    ulimits = [
        f"{name}={limit}:{limit}"
        for name, what in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))
        for limit in [min(hard for hard in (resource.getrlimit(what)[1], LIMIT) if hard != resource.RLIM_INFINITY)]
    ]
    return f"""[containers]
cgroups = "disabled"
init_path = "{shutil.which("catatonit")}"
default_ulimits = {ulimits}
[network]
network_backend = "netavark"
network_config_dir = "/run/ottla-networks"
[engine]
runtime = "crun"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def provide(image: str) -> str | None:
    """Have a base image: from its registry, or else made of Debian's packages. Says what stands in, if anything does.

    Raises:
        Unavailable: neither can be had.
    """
    name = f"docker.io/library/{image}"
    if subprocess.run(["podman", "image", "exists", name]).returncode:
        pull = ["timeout", str(PULL_WITHIN_S), "podman", "pull", "--quiet", name]
        if subprocess.run(pull, capture_output=True).returncode:
            _stand_in(name)
    label = f'{{{{index .Config.Labels "{STANDS_IN}"}}}}'
    told = subprocess.run(
        ["podman", "image", "inspect", "--format", label, name], capture_output=True, text=True, check=True
    )
    return told.stdout.strip() or None


DATABASE_STARTS = """#!/bin/sh
set -e
programs=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
install -d -o postgres -g postgres -m 700 "$data"
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
if ! [ -e "$data/PG_VERSION" ]; then
  as_postgres "$programs/initdb" --pgdata="$data" --username="$POSTGRES_USER" --auth=trust
  echo "host all all all trust" >> "$data/pg_hba.conf"
  as_postgres "$programs/pg_ctl" --pgdata="$data" --options="-c listen_addresses=''" --wait start
  as_postgres createdb --username="$POSTGRES_USER" "$POSTGRES_USER"
  as_postgres "$programs/pg_ctl" --pgdata="$data" --wait stop
fi
exec setpriv --reuid=postgres --regid=postgres --init-groups "$programs/postgres" -D "$data" -c "listen_addresses=*"
"""
"""What the image of PostgreSQL does when it starts, as far as compose.yaml asks for it."""


def _stand_in(name: str) -> None:
    """Make an image of Debian's packages; the release is the last word of the image's tag."""
    is_database = "/postgres:" in name
    release = re.split("[:-]", name)[-1]
    if shutil.which("debootstrap") is None:
        raise Unavailable(f"{name} cannot be pulled, and without debootstrap nothing can stand in for it")
    root, log = CACHE / "base", CACHE / "base.log"
    shutil.rmtree(root, ignore_errors=True)
    packages = "postgresql" if is_database else "python3,python3-venv,python3-pip,ca-certificates"
    include = f"--include={packages}"
    with log.open("w", encoding="utf-8") as output:
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", include, release, str(root), _mirror()], stdout=output, stderr=output
        )
    if made.returncode:
        raise Unavailable(f"{name} cannot be pulled, and debootstrap could not make a stand-in: see {log}")
    has, changes = _furnish_database(root) if is_database else _furnish_python(root)
    changes = [*changes, f'LABEL {STANDS_IN}="Debian {release} with its {has}"']
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
        command = ["podman", "import", "--quiet", *(f"--change={one}" for one in changes), "-", name]
        subprocess.run(command, stdin=tar.stdout, check=True)
    shutil.rmtree(root)


def _furnish_python(root: Path) -> tuple[str, list[str]]:
    (root / "usr/bin/python").symlink_to("python3")
    if CERTIFICATES.exists():  # the machine may trust authorities of its own
        shutil.copy(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
        (root / "etc/pip.conf").write_text(f"[global]\ncert = {CERTIFICATES}\n", encoding="utf-8")
    return next(root.glob("usr/bin/python3.*")).name, []


def _furnish_database(root: Path) -> tuple[str, list[str]]:
    start = root / "usr/local/bin/start"
    start.write_text(DATABASE_STARTS, encoding="utf-8")
    start.chmod(0o755)
    version = next(root.glob("usr/lib/postgresql/*")).name
    return f"PostgreSQL {version}", ['ENTRYPOINT ["/usr/local/bin/start"]', "STOPSIGNAL SIGINT"]


def _mirror() -> str:
    """The Debian mirror of this machine, if it has one."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True
    ).stdout.splitlines()
    return next((uri for uri in listed if uri.rstrip("/").endswith("/debian")), MIRROR)
