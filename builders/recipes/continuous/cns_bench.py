"""CNS-Bench: generated pictures of 100 ImageNet classes along 14 shifts, from the authors' zip."""

from builders.raw.album import RawAlbum
from builders.raw.cns_bench import CnsBench
from builders.recipe import Base
from builders.recipes.shared import CNS_PAPER, paper_trajectories, public
from builders.shifts.steps import Trajectories
from shiftdata.evaluation.protocols import Continuous

#: Each shift, and the words by which its folder is known: four folders' spelling is not verified.
SHIFTS = {
    "cartoon_style": ["cartoon"],
    "painting_style": ["painting"],
    "plush_toy_style": ["plush"],
    "pencil_sketch_style": ["pencil"],
    "graffiti_style": ["graffiti"],
    "video_game_renditions_style": ["video", "videogame"],
    "the_design_of_sculpture": ["sculpture"],
    "style_of_a_tattoo": ["tattoo"],
    "heavy_snow": ["snow"],
    "heavy_rain": ["rain"],
    "heavy_fog": ["fog"],
    "heavy_smog": ["smog"],
    "heavy_dust": ["dust"],
    "heavy_sandstorm": ["sandstorm", "sand"],
}

RECIPE = public(
    name="cns_bench",
    family="continuous",
    creators=(
        "Olaf Dünkel",
        "Artur Jesslen",
        "Jiahao Xie",
        "Christian Theobalt",
        "Christian Rupprecht",
        "Adam Kortylewski",
    ),
    title="CNS-Bench",
    summary=(
        "Generated pictures of 100 ImageNet classes under 14 continuous nuisance shifts, eight styles and "
        "six weathers, each seed at six scales from 0 to 2.5. The class is the target, the shift is the "
        "nuisance, its scale the severity."
    ),
    citation=f"{CNS_PAPER} doi:10.17617/3.MAGNKP.",
    album=RawAlbum(
        name="cns_bench",
        layout=CnsBench(shifts=SHIFTS),
        license="CC-BY-NC-4.0",
        attribution="CNS-Bench (Dünkel et al., 2025), made with Stable Diffusion 2",
    ),
    nuisance="shift",
    shift=Trajectories(names=tuple(SHIFTS)),
    bases=(Base(name="all", summary="Every picture of every whole trajectory."),),
    protocols=(
        *paper_trajectories(tuple(SHIFTS)),
        Continuous(),
        Continuous(variant="paper", cells=True),
    ),
    virtual=16,
)
