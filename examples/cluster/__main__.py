"""``python -m examples.cluster``: three nodes over PostgreSQL and five clients, from the repository's root; it needs
``ottla[demo]``.

The node that coordinates the group is killed, the next one stands still, the database crashes, and then its standby is
promoted. Exit code 0 only if every line was seen, none was lost or is in the log twice, the committed offsets are the
log ends, and nobody rebalanced; and where there is no PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

from examples.cluster.play import ClusterPlay
from examples.cluster.postgresql import programs
from examples.nodes.__main__ import options, play_and_tell


def main() -> int:
    given = options("cluster", "Three nodes over PostgreSQL, in trouble.")
    if programs() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install()
    if programs() is None:
        print("skipped: there is no PostgreSQL. Install it: `apt-get install postgresql`, or see postgresql.org.")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no server must stay behind
    return play_and_tell(given, ClusterPlay)


def install() -> None:
    """Install what Debian and its kin have."""
    print("There is no PostgreSQL: apt-get installs it.", flush=True)
    for words in (["update"], ["install", "--yes", "postgresql"]):
        command = ["apt-get", "-qq", *words]
        subprocess.run(command, stdout=subprocess.DEVNULL, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})


if __name__ == "__main__":
    sys.exit(main())
