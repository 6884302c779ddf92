"""Contexts: procedural scenes round a cut-out. A scene is a function from a `Stage` to a `Scene`.

`domains` has the scenes of each domain, `compose` sets a cut-out into one, `scenery` has what scenes are
drawn with, on the `materials` and `patterns` of floors and walls.
"""
