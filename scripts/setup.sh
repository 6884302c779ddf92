#!/usr/bin/env bash
# Make .venv and install into it: scripts/setup.sh [build] [test] [docs] [assets] [slow]
# Versions come from constraints.txt, and a file that has none of its hashes is not installed; HASHES=no installs it.
# Done already for the same files: nothing happens.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' || {
    echo "the versions in constraints.txt need Python 3.11.5 or newer; '$PYTHON' is $("$PYTHON" --version): make ... PYTHON=python3.12" >&2
    exit 1
}
stamp=".venv/.installed-$*-$(cat pyproject.toml constraints.txt scripts/setup.sh scripts/view.txt | cksum | cut -d ' ' -f 1)"
stamp=${stamp// /-}
[ -e "$stamp" ] && exit 0

[ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
pip=(.venv/bin/python -m pip --disable-pip-version-check --quiet)
sed -n '/^pip==/,/[^\\]$/p' constraints.txt >.venv/pip.txt  # older ones take no hashes of constraints
"${pip[@]}" install --requirement .venv/pip.txt
groups=()
for part in "$@"; do [ "$part" = build ] || groups+=(--group "$part"); done
echo "installing shiftdata and what '$*' needs into .venv ..."
sed -e '/--hash=/d' -e 's/ \\$//' constraints.txt >.venv/versions.txt
pins=constraints.txt
if [ "${HASHES:-}" = no ]; then
    pins=.venv/versions.txt
else
    # A build for CPUs alone is in no index that gives hashes, or in a folder: pip would take the one from PyPI, of GBs.
    rm -rf .venv/torch
    "${pip[@]}" download --no-deps --constraint .venv/versions.txt --dest .venv/torch torch
    hash=$(.venv/bin/python -m pip hash .venv/torch/*.whl | grep '^--hash=sha256:')
    grep -qF -e "$hash" constraints.txt || {
        echo "constraints.txt has no hash of $(basename .venv/torch/*.whl): scripts/lock.sh -- FILE adds that of a file that" \
            "you trust; make ... HASHES=no compares none" >&2
        exit 1
    }
    "${pip[@]}" install --no-deps .venv/torch/*.whl
    rm -r .venv/torch
fi
# Not the checkout itself with what it needs: it has no hash.
.venv/bin/python - >.venv/requirements.txt <<'END'
import tomllib
config = tomllib.load(open("pyproject.toml", "rb"))
extras = config["project"]["optional-dependencies"]
parts = [config["project"]["dependencies"], *(extras[name] for name in ("build", "serve", "torch"))]
print(*sum(parts, config["build-system"]["requires"]), sep="\n")
END
"${pip[@]}" install --constraint "$pins" --requirement .venv/requirements.txt ${groups[@]+"${groups[@]}"}
# The view of `shiftdata explore` alone: its own command line needs GBs, which nothing here uses.
case " $* " in *" slow "*) "${pip[@]}" install --no-deps --require-hashes --requirement scripts/view.txt ;; esac
"${pip[@]}" install --no-deps --no-build-isolation --editable .
touch "$stamp"
