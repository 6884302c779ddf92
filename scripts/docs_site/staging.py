"""The pages of the repository where the generator looks for them: each in its own place."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

REPO = Path(__file__).parents[2]
#: What is a page, or what pages show.
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/**/*.md",
    "docs/notebooks/*.ipynb",
    "cards/*.md",
)
SHOWN = (".png", ".jpg", ".svg", ".webp")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def stage(out: Path) -> None:
    """Copy pages, pictures and the files that pages link to; the README is the first page."""
    for pattern in PAGES:
        for page in sorted(REPO.glob(pattern)):
            place = out / page.relative_to(REPO)
            place.parent.mkdir(parents=True, exist_ok=True)
            text = page.read_text(encoding="utf-8")
            if page.suffix == ".ipynb":
                text, place = notebook_page(text), place.with_suffix(".md")
            if page.parent.name == "cards":
                text = re.sub(r"\A---\n.*?\n---\n", "", text, count=1, flags=re.DOTALL)
            text = text.replace("<details>", "<details markdown>")  # or Markdown in it stays as it is
            text = LINK.sub(lambda found, page=page: _link(found, page, out), text)
            if page == REPO / "README.md":
                place = out / "index.md"
            place.write_text(text, encoding="utf-8")
    for name in ("site.css", "site.js"):
        shutil.copyfile(Path(__file__).with_name(name), out / name)


def notebook_page(text: str) -> str:
    """Return a notebook as Markdown: its texts, its code, and what the cells showed when it was stored."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```ipython\n{source}\n```")
        parts += [_shown(output) for output in cell.get("outputs", [])]
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    """An output in its richest form: a table, a picture, or text."""
    data = {kind: "".join(value) for kind, value in output.get("data", {}).items()}
    for kind in ("image/jpeg", "image/png"):
        if kind in data:
            source = f"data:{kind};base64,{data[kind].replace(chr(10), '')}"
            return f'<p><img alt="The picture that the cell shows" src="{source}"></p>'
    if html := data.get("text/html"):
        return html
    return f"```text\n{(data.get('text/plain') or ''.join(output['text'])).strip()}\n```"


def _link(found: re.Match[str], page: Path, out: Path) -> str:
    """A link as the site needs it: files come along, folders have no page."""
    picture, text, target = found.groups()
    path, hash_, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return found[0]
    file = (page.parent / path).resolve()
    if not file.is_relative_to(REPO) or not file.exists():
        return found[0]  # the check of links names it
    if file == REPO / "README.md":
        return f"[{text}]({_up(page)}index.md{hash_}{anchor})"
    if file.is_dir():
        return text
    if file.suffix == ".ipynb":
        return f"[{text}]({path.removesuffix('.ipynb')}.md{hash_}{anchor})"
    if file.suffix != ".md":
        place = out / file.relative_to(REPO)
        if file.suffix not in SHOWN:  # as a browser shows it
            place, path = place.with_name(f"{place.name}.txt"), f"{path}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    return f"{picture}[{text}]({path}{hash_}{anchor})"


def _up(page: Path) -> str:
    return "../" * (len(page.relative_to(REPO).parts) - 1)
