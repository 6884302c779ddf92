"""Pages in a process of their own: it may be killed, hang, take memory; who reads files does not notice."""

from __future__ import annotations

import http.client
import os
import pickle
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from shiftdata.serve import page_process, page_routes
from shiftdata.serve.page_process import Ask, PageProcess
from tests.serve.hostile import wait_for
from tests.serve.serving import Answer, Running, request, serving

PAGE, FILE = "/datasets/shift/tiny", "/datasets/shift/tiny/resolve/main/README.md"


@pytest.fixture
def served(tiny: Path, tmp_path: Path) -> Iterator[Running]:
    """A mirror of one dataset, whose pages are made in another process."""
    folder = Path(shutil.copytree(tiny, tmp_path / "tiny")).parent
    with serving(folder, pages=PageProcess(folder)) as running:
        yield running


def pid(running: Running) -> int:
    """The process of pages that runs, once there is one."""
    pages = running.mirror.pages
    wait_for(lambda: (process := pages._process) is not None and process.poll() is None)
    return pages._process.pid


def get(running: Running, path: str) -> Answer:
    return request(running.port, "GET", path)


def test_pages_are_those_of_one_process(served: Running, tiny_out: Path):
    with serving(tiny_out) as alone:
        here, there = (
            get(alone, f"{PAGE}/data/rows.json?full=1"),
            get(served, f"{PAGE}/data/rows.json?full=1"),
        )
    assert (there.status, there.json) == (200, here.json)
    assert b"shift/tiny" in get(served, "/").body
    assert pid(served) != os.getpid()


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_whoever_kills_it_stops_no_reader(served: Running, tiny: Path, kills: int):
    content, over = (tiny / "README.md").read_bytes(), threading.Event()

    def read_files() -> int:
        count = 0
        while not over.is_set():
            assert get(served, FILE).body == content
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read_files) for _ in range(3)]
        try:
            for _ in range(kills):
                page = pool.submit(get, served, PAGE)
                process = pid(served)
                time.sleep(0.05)
                with suppress(ProcessLookupError):  # it was just restarted
                    os.kill(process, signal.SIGKILL)
                assert page.result().status in (200, 503)
        finally:
            over.set()
        assert min(reader.result() for reader in readers) > kills
    assert get(served, PAGE).status == 200


@pytest.mark.slow
def test_a_page_in_work_outlives_one_kill(served: Running):
    get(served, PAGE)
    first = pid(served)
    os.kill(first, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        page = pool.submit(get, served, PAGE)
        time.sleep(0.3)
        os.kill(first, signal.SIGKILL)
        assert page.result().status == 200
    assert pid(served) != first


def test_too_much_memory_or_time_ends_a_page_and_nothing_else(served: Running, monkeypatch):
    pages = served.mirror.pages
    monkeypatch.setattr(pages, "_memory", 60_000_000)  # less than its libraries need
    assert get(served, PAGE).status in (413, 422)
    monkeypatch.setattr(pages, "_memory", page_process.MEMORY)
    monkeypatch.setattr(pages, "_seconds", 0.001)
    pages._stop()
    late = get(served, PAGE)
    assert (late.status, late.headers["retry-after"]) == (503, "60")
    assert get(served, FILE).status == 200
    monkeypatch.setattr(pages, "_seconds", 20)
    assert get(served, PAGE).status == 200


def test_a_full_queue_says_when_to_ask_again(served: Running, monkeypatch):
    monkeypatch.setattr(page_process, "QUEUE", 2)
    get(served, PAGE)
    os.kill(pid(served), signal.SIGSTOP)
    with ThreadPoolExecutor(8) as pool:
        pages = [pool.submit(get, served, PAGE) for _ in range(8)]
        wait_for(lambda: sum(page.done() for page in pages) >= 5)
        assert get(served, FILE).status == 200
        os.kill(pid(served), signal.SIGCONT)
        answers = [page.result() for page in pages]
    assert sorted(answer.status for answer in answers) == [200] * 3 + [503] * 5
    assert {answer.headers["retry-after"] for answer in answers if answer.status == 503} == {"5"}


def test_an_address_has_a_share_of_the_queue(served: Running, monkeypatch):
    monkeypatch.setattr(page_process, "SHARE", 2)
    get(served, PAGE)
    os.kill(pid(served), signal.SIGSTOP)
    with ThreadPoolExecutor(8) as pool:
        greedy = [pool.submit(get, served, PAGE) for _ in range(6)]
        wait_for(lambda: sum(page.done() for page in greedy) >= 4)
        other = pool.submit(request_from, "127.0.0.2", served.port, PAGE)
        wait_for(lambda: served.mirror.pages._places["127.0.0.2"] == 1)
        os.kill(pid(served), signal.SIGCONT)
        assert sorted(page.result().status for page in greedy) == [200] * 2 + [503] * 4
        assert other.result() == 200
    assert not served.mirror.pages._places


def request_from(address: str, port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20, source_address=(address, 0))
    with closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def test_the_front_page_shows_what_was_opened_in_its_time(served: Running, monkeypatch):
    monkeypatch.setattr(page_routes, "OPENING", -1.0)
    monkeypatch.setattr(page_routes, "_entries", {})  # other tests of this process may have opened them
    heads = served.library.heads()
    assert b"Other repositories" in page_routes.front_page(Ask("front_page", "", {}, "", heads)).body
    monkeypatch.setattr(page_routes, "OPENING", 10.0)
    assert b"Other repositories" not in page_routes.front_page(Ask("front_page", "", {}, "", heads)).body


def test_what_is_sent_to_it_may_be_computed_on_meanwhile(served: Running):
    (_, commit), *_ = served.library.heads()
    assert commit.bytes > 0
    assert "bytes" in vars(commit)
    assert vars(pickle.loads(pickle.dumps(commit))).keys() == {"id", "date", "files"}


def test_it_ends_with_the_server(tiny_out: Path):
    pages = PageProcess(tiny_out)
    with serving(tiny_out, pages=pages) as running:
        get(running, PAGE)
        process = pages._process
    assert process is not None
    assert process.poll() is not None
