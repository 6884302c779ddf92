"""What ships is what its script makes. Slow: draws, downloads public packages by pinned hash, measures.

Letters are not here: 399 packages take ten minutes. `regenerate_glyphs.py --check` is a step of a release.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.paths import ROOT

SCRIPTS = ROOT / "scripts"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "needs"),
    [
        ("regenerate_emoji_assets.py", "npm"),
        ("regenerate_style_bank.py", "python3"),
        ("regenerate_style_network.py", "python3"),
    ],
)
def test_the_script_makes_what_ships(script, needs):
    if shutil.which(needs) is None:
        pytest.skip(f"{needs} is not installed")
    done = subprocess.run([sys.executable, SCRIPTS / script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
