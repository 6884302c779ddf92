"""What styles, weather, corruptions and contexts share.

noise.py      coordinates, smooth noise, cells
palettes.py   families of colours, and pixels coloured by them
pixels.py     pictures as numbers from 0 to 1 and back
"""
