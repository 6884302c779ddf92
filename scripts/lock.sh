#!/usr/bin/env bash
# Write constraints.txt again: scripts/lock.sh [option of `uv pip compile`, such as --upgrade] [-- WHEEL ...]
# For any Python and system it has the version of everything that setup.sh may install, and the sha256 of every file
# of it on PyPI; also of each WHEEL, such as a CPU build of torch, which PyPI does not have. Versions stay, unless asked.
set -euo pipefail
cd "$(dirname "$0")/.."
options=() out=$(mktemp)
while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1") && shift; done
command -v uv >/dev/null || { echo "scripts/lock.sh needs uv: pip install uv" >&2; exit 1; }

grep -v '^#' constraints.txt >"$out"
groups=()
for group in test slow docs assets; do groups+=(--group "$group"); done
# 3.11.5 is the oldest that every pinned version takes.
echo pip | uv pip compile --quiet --universal --python-version 3.11.5 --all-extras "${groups[@]}" --generate-hashes \
    --no-header --no-annotate --output-file "$out" ${options[@]+"${options[@]}"} pyproject.toml - >/dev/null
for wheel in "${@:2}"; do
    name=$(basename "$wheel") && name=${name%%-*}
    hash=$(python3 -m pip hash "$wheel" | sed -n 's/^--hash=//p')
    grep -q "$hash" "$out" ||
        sed -i.bak "s/^\($name==.*\\\\\)$/\1\n    --hash=$hash \\\\/" "$out"
done
{
    echo "# Every version that setup.sh installs, and the hashes of its files: equal bytes need equal libraries."
    echo "# Written by scripts/lock.sh."
    cat "$out"
} >constraints.txt
rm -f "$out" "$out.bak"
