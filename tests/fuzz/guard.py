"""What every target watches: that nothing outside a folder is opened or changed, and that nothing hangs."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SECRET = b"a secret beside the folder 5e1f"
#: Seconds of processor time for one example, many times what the slowest needs.
MOST_SECONDS = 20.0

#: Of one file that is written.
MOST_BYTES = 64 << 20

_watched: list[tuple[Path, tuple[Path, ...], list[str]]] = []
_hooked = False


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not _watched or not isinstance(arguments[0], str | bytes):
        return
    path = os.path.abspath(os.fsdecode(arguments[0]))
    for top, allowed, seen in _watched:
        inside = any(path == str(folder) or path.startswith(f"{folder}/") for folder in allowed)
        outside = path.startswith(f"{top}/") and not inside
        if (outside and os.path.exists(path)) or path in ("/etc/passwd", "/etc/shadow"):
            seen.append(path)


@contextmanager
def confined(top: Path, *allowed: Path) -> Iterator[None]:
    """Below `top`, only what is inside some folders may be opened, or change; no file grows for ever."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    before, began = _tree(top, allowed), time.process_time()
    watched: tuple[Path, tuple[Path, ...], list[str]] = (top, allowed, [])
    _watched.append(watched)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        _watched.remove(watched)
    assert not watched[2], f"opened outside: {watched[2]}"
    assert _tree(top, allowed) == before, "files outside were changed"
    assert time.process_time() - began < MOST_SECONDS


def _tree(top: Path, without: tuple[Path, ...]) -> dict[str, object]:
    """Everything below a folder but some folders, with its bytes."""
    found: dict[str, object] = {}
    for parent, below, files in os.walk(top):
        below[:] = [name for name in below if Path(parent, name) not in without]
        for name in [*below, *files]:
            path = Path(parent, name)
            if path.is_symlink():
                found[str(path)] = os.readlink(path)
            elif path.is_file():
                found[str(path)] = path.read_bytes()
            else:
                found[str(path)] = path.lstat().st_mode
    return found


@contextmanager
def no_reader_waits(folder: Path, seconds: float = 20.0) -> Iterator[None]:
    """If somebody waits for a pipe in the folder, let it go after a while, and fail."""
    done = threading.Event()
    waited: list[str] = []

    def release() -> None:
        while not done.wait(seconds):
            for path in folder.rglob("*"):
                if path.is_fifo():
                    with suppress(OSError):
                        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                        waited.append(str(path))

    watch = threading.Thread(target=release, daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()
    assert waited == [], "it waits for a pipe"
