"""A web server of a test's own, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def answering(handler: Callable[..., BaseHTTPRequestHandler], host: str = "127.0.0.1") -> Iterator[str]:
    """Answer requests with a handler; gives the address."""
    server = ThreadingHTTPServer((host, 0), handler)
    server.daemon_threads = True  # a client that stays connected holds up no test
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
