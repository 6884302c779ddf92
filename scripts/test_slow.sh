#!/usr/bin/env bash
# What takes minutes: the tests marked slow, every property with many more examples, and what we publish read by
# other versions of `datasets`. scripts/test_slow.sh [datasets version ...]; default: every version of the peers.
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE  # see scripts/test.sh
scripts/test_peers.sh "$@"
if [ $# -gt 0 ]; then scripts/test_mirror_peers.sh "datasets==4.0.0,huggingface_hub==1.33.0"; else scripts/test_mirror_peers.sh; fi
.venv/bin/python scripts/compare_losses
.venv/bin/python -m pytest -q -n auto --dist loadfile --max-worker-restart 0 -m "property and not slow" --hypothesis-profile=long
.venv/bin/python -m pytest -n auto --dist load --max-worker-restart 0 -m slow
