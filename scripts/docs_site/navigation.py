"""How the generator is set up, and in which order a reader finds the pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reference import command_file
from topics import COMMANDS, TOPICS

CONFIG = """\
[project]
site_name = "shiftdata"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false      # so that it opens from a disk
extra_css = ["site.css"]
extra_javascript = ["site.js"]
nav = NAVIGATION

[project.theme]
language = "en"
font = false                    # nothing comes from elsewhere
features = [
  "content.code.copy", "navigation.footer", "navigation.top",
  "toc.follow",
]
icon.logo = "lucide/shapes"

[[project.theme.palette]]
media = "(prefers-color-scheme)"
toggle.icon = "lucide/sun-moon"
toggle.name = "Light"

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "As the system"

[project.markdown_extensions]
attr_list = {}
md_in_html = {}
tables = {}
toc.permalink = true
pymdownx.highlight.pygments_lang_class = true
pymdownx.inlinehilite = {}
pymdownx.superfences = {}
"""

#: Groups and pages by the titles of the sidebar. A pattern is a group of all pages that match, each under
#: its own heading up to a colon; without a title of its own, its pages stand in the group around it.
TREE: Mapping[str, Any] = {
    "Get started": {
        "Overview": "index.md",
        "Researcher: train and evaluate": "docs/researcher.md",
        "Publisher: make a dataset": "docs/publisher.md",
        "Auditor: check a dataset": "docs/auditor.md",
        "Notebook: a worst group": "docs/notebooks/researcher.md",
        "Notebook: publish a folder": "docs/notebooks/publisher.md",
    },
    "Find and load data": {
        "Load and batch": "docs/loading.md",
        "Fetch from any place": "docs/fetching.md",
        "Folders for existing code": "docs/exporting.md",
        "Look at data and results": "docs/gallery.md",
        "Gallery": "gallery/index.html",
        "Built-in datasets": "cards/*.md",
        "Public datasets": {"All of them": "docs/raw_datasets.md", "": "docs/raw/*.md"},
    },
    "Train and evaluate": {
        "Tasks and protocols": "docs/protocols.md",
        "Reference methods": "docs/baselines.md",
        "Losses for your loop": "docs/losses.md",
        "Your own method or model": "docs/own_code.md",
        "Sweeps": "docs/sweeps.md",
        "Reports": "docs/report.md",
        "Leaderboards": "docs/leaderboard.md",
        "Kinds of shift": "docs/kinds_of_shift.md",
        "Trained models": {
            "Predict and fine-tune": "docs/models.md",
            "What they have seen": "docs/models_registry.md",
            "Accuracy on the line": "docs/models_line.md",
            "Adapt at test time": "docs/models_streams.md",
        },
    },
    "Make a dataset": {
        "Your own data": "docs/own_data.md",
        "Steps of a recipe": "docs/steps.md",
        "Build on many machines": "docs/cluster.md",
        "Generators": {"Which one": "docs/generators.md", "": "docs/generators/*.md"},
    },
    "Publish and serve": {
        "Places and licences": "docs/publishing.md",
        "A mirror for your lab": "docs/mirror.md",
        "Trust and checks": "docs/trust.md",
    },
    "Results": {
        "The papers' claims, rerun": "docs/findings.md",
        "The papers' numbers": "docs/published.md",
        "What was measured": "docs/measured.md",
    },
    "Reference": {
        **{topic.title: f"reference/{topic.file}.md" for topic in TOPICS},
        "Command line": {title: f"reference/{command_file(title)}.md" for title in COMMANDS},
    },
    "Project": {
        "Contribute": "CONTRIBUTING.md",
        "Releases": "docs/releasing.md",
        "Changelog": "CHANGELOG.md",
        "Security": "SECURITY.md",
    },
}


def config(pages: Path) -> str:
    """Return the generator's settings; a page that has no place in the order is an error."""
    tree = {title: _matches(pages, entry) for title, entry in TREE.items()}
    lost = {str(path.relative_to(pages)) for path in pages.rglob("*.md")} - set(_paths(tree))
    if lost:
        raise SystemExit(f"give these pages a place in {Path(__file__).name}: {', '.join(sorted(lost))}")
    return CONFIG.replace("NAVIGATION", _toml(tree))


def _matches(pages: Path, entry: Any) -> Any:
    """Replace patterns by the pages that match and have no place of their own in the group."""
    if isinstance(entry, str):
        return _titles(pages, entry) if "*" in entry else entry
    found: dict[str, Any] = {}
    for name, inner in entry.items():
        matched = _matches(pages, inner)
        found |= {name: matched} if name else matched
    return found


def _titles(pages: Path, pattern: str) -> dict[str, str]:
    heading = re.compile(r"^# (.*?)(?::|$)", re.MULTILINE)
    paths = {str(path.relative_to(pages)): path.read_text(encoding="utf-8") for path in pages.glob(pattern)}
    titles = {found[1]: path for path, text in paths.items() if (found := heading.search(text))}
    return dict(sorted(titles.items(), key=lambda item: item[0].lower()))


def _paths(tree: Any) -> Iterator[str]:
    for entry in tree.values():
        if isinstance(entry, str):
            yield entry
        else:
            yield from _paths(entry)


def _toml(entry: Any) -> str:
    """Write the order as TOML: each entry is a table of one title, its value a page or a list of entries."""
    if isinstance(entry, str):
        return json.dumps(entry)
    return (
        "[" + ", ".join(f"{{ {json.dumps(title)} = {_toml(inner)} }}" for title, inner in entry.items()) + "]"
    )
