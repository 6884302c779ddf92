"""Without what only Linux has: it is taken away, as on Windows, and everything but `serve` works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import importlib, os, pkgutil, shutil, sys, warnings
from pathlib import Path

import filelock

filelock.FileLock = filelock.SoftFileLock  # its lock of Windows runs only there
import datasets, huggingface_hub, pandas, PIL.Image, torch.utils.data  # of others

class Absent:
    def find_spec(self, name, *_):
        if name in ("fcntl", "termios", "resource", "pwd", "grp"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in ("fcntl", "termios", "resource", "pwd", "grp"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
for name in dir(os):
    gone = ("O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW", "O_DIRECTORY", "O_PATH", "pread", "geteuid", "getuid",
            "fork", "sched_getaffinity", "mkfifo", "posix_fallocate", "posix_fadvise")
    if name in gone:
        delattr(os, name)
os.supports_dir_fd, os.supports_follow_symlinks = set(), set()
shutil._use_fd_functions = False

import builders, shiftdata

for package in (shiftdata, builders):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)

import shiftdata as sd
from builders.make.build import build
from shiftdata.cli.app import main

folder, recipe, out = map(Path, sys.argv[1:])
os.chdir(out)
warnings.simplefilter("ignore")  # of filelock, which has only soft locks then
assert sd.verify(folder) == []
task = sd.task(folder, "group-fairness", k=2, mu=0.1)
with task.loader(sampler="rwg", batch_size=4) as loader:
    x, y, known = next(iter(loader))
assert x.shape[0] == 4
assert sd.verify(sd.fetch(folder, out="copy")) == []
part = sd.fetch(folder, config="gf_k2_mu10", out="part")
(part / "README.md").write_text("damaged")
assert sd.verify(sd.fetch(folder, config="gf_k2_mu10", out="part")) == []
assert (sd.load_dataset("copy", split="train").num_rows) > 0
made = build(str(recipe), out, workers=1, quiet=True)
assert sd.info(made).content_id == sd.info(folder).content_id
assert main(["export", str(folder), "--to", "imagefolder", "--out", "images"]) == 0
assert main(["serve", str(out)]) == 1
"""


@pytest.mark.slow
def test_what_only_linux_has_is_needed_by_serve_alone(tiny: Path, recipe: Path, tmp_path: Path):
    command = [sys.executable, "-c", SCRIPT, str(tiny), str(recipe), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "shiftdata serve needs Linux or macOS" in done.stderr
