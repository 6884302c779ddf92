#!/usr/bin/env bash
# Make .venv and install into it: scripts/setup.sh [build] [test] [docs] [assets] [slow]
# Versions come from constraints.txt. Done already for the same files: nothing happens.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "shiftdata needs Python 3.11 or newer; $("$PYTHON" --version) is what '$PYTHON' is: make ... PYTHON=python3.12" >&2
    exit 1
}
stamp=".venv/.installed-$*-$(cat pyproject.toml constraints.txt scripts/setup.sh | cksum | cut -d ' ' -f 1)"
stamp=${stamp// /-}
[ -e "$stamp" ] && exit 0

[ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
pip=(.venv/bin/python -m pip --disable-pip-version-check --quiet)
"${pip[@]}" install --upgrade --constraint constraints.txt pip
groups=()
for part in "$@"; do [ "$part" = build ] || groups+=(--group "$part"); done
echo "installing shiftdata and what '$*' needs into .venv ..."
"${pip[@]}" install --constraint constraints.txt --editable '.[build,serve,torch]' "${groups[@]}"
touch "$stamp"
