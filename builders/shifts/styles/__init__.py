"""Neural style transfer.

network.py    the arbitrary-style network
bank.py       the 20 styles of the style bank, as codes that the network paints with
sliders.py    the eight style shifts of CNS-Bench, from the untouched picture to the whole style
looks.py      what each style shift adds to the network's picture
assets/       the network, the codes, and what was measured of them

The style pictures that the shipped codes were made from are drawn in scripts/style_pictures.
"""
