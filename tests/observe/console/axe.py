"""axe-core, which finds what keeps people from using a page. npm fetches it once; what it fetched is compared."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
"""Everything that axe-core knows of WCAG 2.2 AA."""

RUN = """async ([source, tags]) => {
  if (!globalThis.axe) (0, eval)(source);
  const { violations } = await axe.run(document, { runOnly: { type: "tag", values: tags } });
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`));
}"""


def source(folder: Path) -> str:
    """The script, of a folder that keeps it; skips the test where npm is not there or fetches nothing."""
    script = folder / f"axe-{VERSION}.js"
    if not script.exists():
        with tempfile.TemporaryDirectory(dir=folder) as aside:  # another worker may do the same at this moment
            fetched = Path(aside) / script.name
            fetched.write_text(_fetched(Path(aside)))
            fetched.replace(script)
    return script.read_text()


def _fetched(folder: Path) -> str:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: it fetches axe-core")
    command = ["npm", "pack", f"axe-core@{VERSION}", "--pack-destination", str(folder), "--silent"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    archive = folder / f"axe-core-{VERSION}.tgz"
    if not archive.exists():
        pytest.skip(f"npm did not fetch axe-core: {done.stderr[-300:]}")
    assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == SHA512
    with tarfile.open(archive) as packed:
        member = packed.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def violations(page: Page, script: str) -> list[str]:
    """What of a page is against WCAG 2.2 AA."""
    found: list[str] = page.evaluate(RUN, [script, TAGS])
    return found
