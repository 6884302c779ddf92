"""What a job costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def measured() -> Iterator[dict[str, Any]]:
    """Seconds, processor seconds and, on Linux, the most memory of what is done inside."""
    cost: dict[str, Any] = {}
    with suppress(OSError):  # forget the most memory of what this process did before
        Path("/proc/self/clear_refs").write_text("5")
    begun, used = time.monotonic(), time.process_time()
    yield cost
    cost |= {"seconds": time.monotonic() - begun, "processor_seconds": time.process_time() - used}
    with suppress(OSError, IndexError):
        status = Path("/proc/self/status").read_text()
        cost["peak_memory"] = 1024 * int(status.partition("VmHWM:")[2].split()[0])
