"""The five papers whose numbers ship with the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper: how to cite it, and a phrase at the head of its text by which a file is known to hold it."""

    title: str
    authors: str
    where: str
    title_in_text: str

    @property
    def citation(self) -> str:
        """Authors, title and place."""
        return f"{self.authors}. {self.title}. {self.where}."


PAPERS: Mapping[str, Paper] = MappingProxyType(
    {
        "sma": Paper(
            title=(
                "Stylized Meta-Album: Group-bias injection with style transfer to study robustness against "
                "distribution shifts"
            ),
            authors="R. Mussard, A. Gauffre, I. Ullah, T. G. H. Khuong, M.-R. Amini, I. Guyon, L. Sun-Hosoya",
            where="The dataset's first release is of August 2024",
            title_in_text="Stylized Meta-Album",
        ),
        "nico++": Paper(
            title="NICO++: Towards Better Benchmarking for Domain Generalization",
            authors="X. Zhang, Y. He, R. Xu, H. Yu, Z. Shen, P. Cui",
            where="CVPR 2023",
            title_in_text="Towards Better Benchmarking for Domain Generalization",
        ),
        "cns-bench": Paper(
            title="CNS-Bench: Benchmarking Image Classifier Robustness Under Continuous Nuisance Shifts",
            authors="O. Dünkel, A. Jesslen, J. Xie, C. Theobalt, C. Rupprecht, A. Kortylewski",
            where="ICCV 2025; the numbers are those of the appendix of the first submission (2024)",
            title_in_text="more details about the benchmarking dataset, the filtering",
        ),
        "domainbed-v2": Paper(
            title="Rethinking the Evaluation Protocol of Domain Generalization",
            authors="H. Yu, X. Zhang, R. Xu, J. Liu, Y. He, P. Cui",
            where="CVPR 2024; arXiv:2305.15253v2",
            title_in_text="Rethinking the Evaluation Protocol of Domain Generalization",
        ),
        "rlsbench": Paper(
            title="RLSbench: Domain Adaptation Under Relaxed Label Shift",
            authors="S. Garg, N. Erickson, J. Sharpnack, A. J. Smola, S. Balakrishnan, Z. C. Lipton",
            where="ICML 2023, PMLR 202",
            title_in_text="Domain Adaptation Under Relaxed Label Shift",
        ),
    }
)
