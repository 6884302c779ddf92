"""Turns: few at once, few that wait, and none that is lost when what is made fails."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from shiftdata.serve.names import Refusal
from shiftdata.serve.turns import Turns


def test_few_are_made_at_once_few_wait_and_the_others_may_ask_again():
    async def asked() -> tuple[list[object], int]:
        turns, running, most, gate = Turns(2, 3, 30), Counter[str](), [0], threading.Event()
        entered, lock = threading.Semaphore(0), threading.Lock()

        def make(number: int) -> int:
            with lock:
                running["now"] += 1
                most[0] = max(most[0], running["now"])
            entered.release()
            assert gate.wait(20)
            with lock:
                running["now"] -= 1
            if number % 2:
                raise KeyError(number)
            return number

        tasks = [asyncio.create_task(turns.run(make, number)) for number in range(9)]
        for _ in range(2):
            await asyncio.to_thread(entered.acquire)
        done, _ = await asyncio.wait(tasks, timeout=0.05)
        assert len(done) == 4  # refused at once, while two run and three wait
        gate.set()
        first = await asyncio.gather(*tasks, return_exceptions=True)
        again = await asyncio.gather(*(turns.run(make, 2 * number) for number in range(5)))
        assert again == [0, 2, 4, 6, 8]  # errors have kept no turn
        return first, most[0]

    answers, most = asyncio.run(asked())
    assert most == 2
    kinds = Counter(type(answer).__name__ for answer in answers)
    assert kinds == {"Refusal": 4, "int": 3, "KeyError": 2}
    refusal = next(answer for answer in answers if isinstance(answer, Refusal))
    assert (refusal.status, refusal.headers["Retry-After"]) == (503, "5")


def test_nobody_waits_for_longer_than_the_patience():
    async def asked() -> None:
        turns, gate = Turns(1, 3, 0.05), threading.Event()
        first = asyncio.create_task(turns.run(gate.wait, 20))
        await asyncio.sleep(0.01)
        with pytest.raises(Refusal, match="ask again"):
            await turns.run(gate.wait, 20)
        gate.set()
        assert await first
        assert await turns.run(gate.wait, 20)

    asyncio.run(asked())
