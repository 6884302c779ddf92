"""Compare `shiftdata.baselines.losses` with other packages and with plain loops of the papers' formulas.

    python scripts/compare_losses                    # the loops, and those packages that are installed
    python scripts/compare_losses --peers PEERS      # packages in a folder of their own as well

The peers pin other versions of libraries, so they lie in that folder without their requirements:

    pip install --no-deps --target PEERS pytorch-adapt==0.0.83 pytorch-metric-learning==2.9.0 \
        torchmetrics==1.9.0 lightning-utilities==0.15.3 skada==0.6.0 skorch==1.4.0 tabulate==0.10.0 \
        POT==0.9.7.post1

Adapters of streams and Correct-N-Contrast are compared with files of their authors' repositories, which
`streams.py` and `contrast.py` name.
skada imports pandas and scikit-learn too. A line is the largest relative difference of value or gradients
over random tensors. Exits with 1 where one is above its tolerance.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from scripts.compare_losses import adaptation, contrast, domains, streams


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="compare_losses", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", metavar="FOLDER", help="a folder with packages to compare with")
    parser.add_argument("--seed", type=int, default=0, help="of the random tensors")
    options = parser.parse_args(arguments)
    if options.peers:
        sys.path.append(options.peers)
    warnings.simplefilter("ignore")  # of peers
    failed = skipped = 0
    comparisons = [*domains.COMPARISONS, *adaptation.COMPARISONS, *contrast.COMPARISONS, *streams.COMPARISONS]
    for comparison in comparisons:
        if missing := comparison.missing():
            print(f"{comparison.name:44} skipped: {', '.join(missing)} not installed")
            skipped += 1
            continue
        difference = comparison.difference(options.seed)
        failed += (wrong := not difference <= comparison.tolerance)
        print(f"{comparison.name:44} {difference:.1e}{' WRONG' if wrong else ''}", flush=True)
    print(f"{len(comparisons)} comparisons: {failed} wrong, {skipped} skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
