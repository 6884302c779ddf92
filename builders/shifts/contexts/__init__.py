"""Contexts: procedural scenes round a cut-out. A scene is a function from a `Stage` to a `Scene`.

domains.py      which domains there are, the scenes of each, and the unique ones of each class (unique.tsv)
compose.py      how a cut-out is set into a scene
scene.py        the stage, the pen, the scene
scenery.py      parts of scenes: skies, floors, hills, trees, stones, lights
materials.py    materials of floors and walls: turf, snow, water, tiles, paper
patterns.py     ... and patterns: bricks, planks, plaid, marble

Common domains:  grass_water_sand_rock.py, autumn_winter.py, indoor_outdoor.py, dim_dark.py
Unique domains:  attributes_actions.py, backgrounds_cameras.py, company.py
"""
