"""``OTTLA_…`` variables are settings of the broker: what tests and tools read besides must not be taken for one."""

from __future__ import annotations

import re

from ottla.broker.setting_sources import NOT_SETTINGS
from tests.house.sources import ROOT, files

READ = re.compile(r"""(?:environ(?:\.get\(|\[)\s*|^[A-Z_]+ = )["'](OTTLA_[A-Z_]+)["']""", re.MULTILINE)


def test_what_is_no_setting_is_known() -> None:
    read = set()
    for path in files(".py"):
        if path.relative_to(ROOT).parts[0] in {"tests", "cli", "testing", "bench", "clients", "pipeline"}:
            read |= set(READ.findall(path.read_text()))
    assert {"OTTLA_TESTS", "OTTLA_INTEROP_CACHE", "OTTLA_AIOKAFKA_TREE"} <= read
    assert read <= NOT_SETTINGS
