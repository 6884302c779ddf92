"""How a page looks, checked in a real browser: each check returns sentences that name what to mend.

CHECKS, check           the checks by name; what they find on an open page
Watch                   what a page says, asks for and fails to load
open_page, at_size      a page that has settled; the same page on another screen
problems                all checks on every screen, light and dark
problems_without_script what somebody sees whose browser runs no script
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser import accessibility_problems

SOURCE = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
#: Width and height of a phone and of a laptop; of a large screen, on which little can go wrong.
SCREENS, LARGE = ((360, 800), (1280, 900)), (3840, 2160)


def ask(page: Any, call: str) -> Any:
    """Evaluate a call of tests/visual.js on a page."""
    return page.evaluate(f"() => {{ {SOURCE}; return checks.{call}; }}")


#: What is wrong on an open page, by the kind of the defect: functions of tests/visual.js.
CHECKS = {
    "broken words": "brokenWords",
    "squeezed texts": "squeezedTexts",
    "contrast of texts": "contrastOfTexts",
    "contrast of shapes": "contrastOfShapes",
    "contrast of boxes": "contrastOfBoxes",
    "contrast of fields": "contrastOfFields",
    "empty parts": "emptyParts",
    "empty boxes": "emptyBoxes",
    "too wide": "tooWide",
    "cut": "cutContent",
    "cut on wide screens": "cutOnWideScreens",
    "waiting": "waitingWords",
    "forms": "formProblems",
}
COLOURS = tuple(name for name in CHECKS if name.startswith("contrast"))


def check(page: Any, names: Iterable[str] = tuple(CHECKS)) -> list[str]:
    """Run checks on a page as it is now."""
    found = ask(page, f"run({[CHECKS[name] for name in names]})")
    return [f"{name}: {problem}" for name in names for problem in found[CHECKS[name]]]


class Watch:
    """What a page says on its console, what it asks for elsewhere, and what fails."""

    def __init__(self, page: Any, own: str) -> None:
        self.said: list[str] = []
        self.pending = 0
        self.own = (own, "data:", "blob:")
        page.on("console", lambda message: self.said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", self._begin)
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._fail)
        page.on("response", self._answer)

    def _begin(self, request: Any) -> None:
        self.pending += 1
        if not request.url.startswith(self.own):
            self.said.append(f"asks elsewhere: {request.url}")

    def _end(self, request: Any) -> None:
        self.pending -= 1

    def _fail(self, request: Any) -> None:
        self.pending -= 1
        self.said.append(f"failed: {request.url}")

    def _answer(self, response: Any) -> None:
        if response.status >= 400:
            self.said.append(f"{response.status}: {response.url}")


@contextmanager
def open_page(
    chromium: Any, url: str, *, script: bool = True, opened: bool = True
) -> Iterator[tuple[Any, Watch]]:
    """Open a page on a laptop's screen, in light, and wait until it has settled.

    Args:
        chromium: The browser.
        url: A file or an address of a server, whose own host may be asked.
        script: Let the page run its scripts.
        opened: Open all that can be opened, so that the checks see it.
    """
    width, height = SCREENS[-1]
    options = {
        "viewport": {"width": width, "height": height},
        "color_scheme": "light",
        "reduced_motion": "reduce",
    }
    with chromium.new_context(**options, java_script_enabled=script) as context:
        page = context.new_page()
        scheme, _, rest = url.partition("://")
        watch = Watch(page, "file:" if scheme == "file" else f"{scheme}://{rest.partition('/')[0]}/")
        page.goto(url)
        page.scripts = script
        if opened:
            ask(page, "open()")
        settle(page, watch)
        yield page, watch


def settle(page: Any, watch: Watch | None = None, milliseconds: int = 120) -> None:
    """Wait until a page changes no more and nothing that it asked for is missing; give up after 10 s."""
    if not page.scripts:  # its own clock stands still too
        page.wait_for_timeout(milliseconds / 2)
        return
    for _ in range(20):
        ask(page, f"quiet({milliseconds}, 500)")
        if watch is None or watch.pending <= 0:
            return


def at_size(page: Any, size: tuple[int, int], scheme: str) -> None:
    """Show an open page on a screen of another size, in light or dark."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    settle(page, milliseconds=50)


def problems(page: Any, watch: Watch) -> list[str]:
    """Run all checks on every screen, in light and dark; what is dark differs in nothing but colours."""
    found: dict[str, list[str]] = {}
    for scheme in ("light", "dark"):
        for size in SCREENS:
            at_size(page, size, scheme)
            wrong = check(page, CHECKS if scheme == "light" else COLOURS)
            if (size, scheme) in ((SCREENS[0], "dark"), (SCREENS[-1], "light")):
                wrong += [
                    f"accessibility: {problem}" for problem in accessibility_problems(page, contrast=False)
                ]
            for problem in wrong:
                found.setdefault(problem, []).append(f"{size[0]} {scheme}")
    at_size(page, LARGE, "light")
    for problem in check(page, ("too wide", "cut")):
        found.setdefault(problem, []).append(f"{LARGE[0]} light")
    return [f"{problem} ({', '.join(where)})" for problem, where in found.items()] + watch.said


def problems_without_script(page: Any, watch: Watch, with_script: int) -> list[str]:
    """Check a page that runs no script; `with_script` are the words that it shows with scripts.

    It shows nearly all of them, or says why not, and has nothing that waits for a script.
    """
    found = check(page, ("empty parts", "empty boxes", "waiting", "too wide")) + watch.said
    found += ask(page, "deadControls()")
    words, excuse, scripts = ask(page, "shownWords()")
    if scripts and excuse < 4 and words < 0.8 * with_script:
        found.append(f"{words} of {with_script} words without JavaScript, and no sentence says why")
    return found
