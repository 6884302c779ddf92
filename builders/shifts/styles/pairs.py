"""Pairs of the bank's styles between which models are adapted."""

#: As many pairs of source and target style as Stylized Meta-Album has, whose styles these are not.
PAIRS = tuple(
    (source, target)
    for source, targets in {
        "green_hatching": ("green_etching",),
        "pale_watercolour": ("pale_cream",),
        "terracotta": ("amber", "deep_blue"),
        "dark_olive": ("green_hatching",),
        "glossy_red": ("emerald_woodcut", "rainbow_outlines"),
        "green_etching": ("ink_on_sand",),
        "rainbow_outlines": ("bright_crayon",),
        "ink_on_sand": ("black_ink",),
        "embers": ("orange_and_teal", "mist"),
        "midnight": ("deep_blue", "pale_cream"),
        "amber": ("terracotta",),
        "black_ink": ("pale_watercolour",),
        "crimson_print": ("charcoal",),
        "deep_blue": ("embers",),
        "mist": ("midnight",),
        "pale_cream": ("bright_crayon",),
        "charcoal": ("emerald_woodcut",),
        "orange_and_teal": ("green_etching", "green_hatching"),
        "emerald_woodcut": ("crimson_print",),
        "bright_crayon": ("glossy_red",),
    }.items()
    for target in targets
)
