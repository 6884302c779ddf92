"""How the generator is set up, and in which order a reader finds the pages."""

from __future__ import annotations

import json
from pathlib import Path

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
  "content.code.copy", "navigation.footer", "navigation.indexes", "navigation.sections", "navigation.top",
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
tables = {}
toc.permalink = true
pymdownx.highlight.pygments_lang_class = true
pymdownx.inlinehilite = {}
pymdownx.superfences = {}
"""

TREE: dict[str, list[str]] = {
    "Start": [
        "index.md", "docs/researcher.md", "docs/publisher.md", "docs/auditor.md",
        "docs/notebooks/researcher.md", "docs/notebooks/publisher.md", "docs/measured.md", "CHANGELOG.md",
    ],
    "Data": [
        "docs/loading.md", "docs/gallery.md", "docs/own_data.md", "docs/steps.md", "docs/generators.md",
        "docs/generators/*.md", "docs/cluster.md", "cards/*.md",
    ],
    "Public datasets": ["docs/raw_datasets.md", "docs/raw/*.md"],
    "Evaluate": [
        "docs/protocols.md", "docs/baselines.md", "docs/models.md", "docs/models_registry.md",
        "docs/models_line.md", "docs/models_streams.md", "docs/losses.md", "docs/own_code.md",
        "docs/sweeps.md", "docs/report.md", "docs/meters.md", "docs/findings.md", "docs/leaderboard.md",
        "docs/published.md",
    ],
    "Publish": ["docs/distribution.md", "docs/releasing.md"],
    "Reference": ["reference/*.md"],
    "Contribute": ["CONTRIBUTING.md", "SECURITY.md"],
}  # fmt: skip


def config(pages: Path) -> str:
    """Return the generator's settings; a page that has no place in the order is an error."""
    tree = {group: _matches(pages, patterns) for group, patterns in TREE.items()}
    listed = {path for paths in tree.values() for path in paths}
    lost = {str(path.relative_to(pages)) for path in pages.rglob("*.md")} - listed
    if lost:
        raise SystemExit(f"give these pages a place in {Path(__file__).name}: {', '.join(sorted(lost))}")
    groups = [f"{{ {json.dumps(group)} = {json.dumps(paths)} }}" for group, paths in tree.items()]
    groups.insert(1, '{ "Gallery" = "gallery/index.html" }')
    return CONFIG.replace("NAVIGATION", f"[{', '.join(groups)}]")


def _matches(pages: Path, patterns: list[str]) -> list[str]:
    listed = [str(path.relative_to(pages)) for pattern in patterns for path in sorted(pages.glob(pattern))]
    return list(dict.fromkeys(listed))
