"""What ships is what its script makes. Slow: draws, downloads public packages by pinned hash, measures.

Letters are not here: 399 packages take ten minutes. `regenerate_glyphs.py --check` is a step of a release.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.paths import ROOT

SCRIPTS = ROOT / "scripts"


@pytest.mark.slow
@pytest.mark.parametrize("of", ["emoji_names", "sliders", "style_bank", "style_network", "tables"])
def test_the_script_makes_what_ships(of):
    if of == "emoji_names" and shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    command = [sys.executable, SCRIPTS / f"regenerate_{of}.py", "--check"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
