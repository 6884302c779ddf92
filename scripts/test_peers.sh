#!/usr/bin/env bash
# Read the datasets of the contract with other versions of `datasets`, each in an environment of its own,
# with nothing of ours installed: scripts/test_peers.sh [version ...]
set -euo pipefail
cd "$(dirname "$0")/.."
versions=("$@")
[ ${#versions[@]} -gt 0 ] || versions=(4.0.0 4.8.5 5.2.0)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HF_HUB_OFFLINE=1 HF_DATASETS_DISABLE_PROGRESS_BARS=1

.venv/bin/python -m tests.contracts.kinds "$scratch/out"
for version in "${versions[@]}"; do
    peer=".venv-peers/datasets-$version"
    if [ ! -e "$peer/.installed" ]; then
        echo "installing datasets $version and pillow into $peer ..."
        "${PYTHON:-python3}" -m venv "$peer"
        "$peer/bin/python" -m pip --disable-pip-version-check -qq install "datasets==$version" pillow
        touch "$peer/.installed"
    fi
    HF_HOME="$scratch/cache-$version" "$peer/bin/python" -I tests/peers/client.py "$scratch/out/shift"
done
