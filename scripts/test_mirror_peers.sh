#!/usr/bin/env bash
# Read from a mirror with today's clients and those of one major version back, each in an environment of its
# own, with nothing of ours installed: scripts/test_mirror_peers.sh [datasets==x,huggingface_hub==y ...]
set -euo pipefail
cd "$(dirname "$0")/.."
peers=("$@")
[ ${#peers[@]} -gt 0 ] || peers=("datasets==5.2.0,huggingface_hub==2.4.0" "datasets==4.0.0,huggingface_hub==1.33.0")
python="${SHIFTDATA_PYTHON:-.venv/bin/python}"
scratch=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$scratch"' EXIT
export HF_DATASETS_DISABLE_PROGRESS_BARS=1 HF_HUB_DISABLE_PROGRESS_BARS=1 HF_UPDATE_DOWNLOAD_COUNTS=0
export HF_TOKEN=of-the-test SHIFTDATA_MIRROR_TOKEN=of-the-test

HF_HUB_OFFLINE=1 "$python" - "$scratch" <<'PYTHON'
import sys
from pathlib import Path
from builders.make.build import build
from tests.tiny import write_recipe

scratch = Path(sys.argv[1])
(scratch / "recipe").mkdir()
build(str(write_recipe(scratch / "recipe")), scratch / "out", workers=1, quiet=True)
PYTHON

for peer in "${peers[@]}"; do
    name="${peer//==/-}"
    home=".venv-peers/${name//,/-}"
    if [ ! -e "$home/.installed" ]; then
        echo "installing ${peer//,/ } and pillow into $home ..."
        "${PYTHON:-python3}" -m venv "$home"
        "$home/bin/python" -m pip --disable-pip-version-check -qq install ${peer//,/ } pillow
        touch "$home/.installed"
    fi
    "$python" -m shiftdata serve "$scratch/out" --port 0 --quiet > "$scratch/said" &
    server=$!
    for _ in $(seq 100); do grep -q HF_ENDPOINT "$scratch/said" && break || sleep 0.1; done
    endpoint=$(sed -n 's/^export HF_ENDPOINT=//p' "$scratch/said")
    HF_ENDPOINT="$endpoint" HF_HOME="$scratch/home-$name" "$home/bin/python" -I tests/peers/mirror_client.py "$scratch/out/shift/tiny"
    kill "$server"
    wait "$server" || true
    server=
done
