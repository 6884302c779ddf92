"""Check the tasks in croissant.json, or of `leaderboard --croissant`, by the SHACL shapes of Croissant Tasks.

    python scripts/check_croissant_tasks.py --shapes FOLDER FILE...

FOLDER is `tasks/` of a checkout of mlcommons/croissant, which nothing here ships. It needs pyshacl. Two
faults of the shapes are mended: property shapes without a path, which pyshacl refuses, and the shape of all
tasks, which refuses the specs that the shape of problems asks for.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rdflib import RDF, SH, Graph, Namespace
from rdflib.collection import Collection
from rdflib.term import BNode

from shiftdata.extras import require

CR = Namespace("http://mlcommons.org/croissant/")


def shapes_of(file: Path) -> Graph:
    """Read the shapes, and mend them."""
    shapes = Graph().parse(file)
    for node, shape in list(shapes.subject_objects(SH.property)):
        path = shapes.value(shape, SH.path)
        if path is None:  # its alternatives are those of the node
            for alternatives in shapes.objects(shape, SH["or"]):
                shapes.add((node, SH["or"], alternatives))
                for inner in Collection(shapes, alternatives):
                    shapes.add((inner, RDF.type, SH.PropertyShape))
            shapes.remove((node, SH.property, shape))
        elif node == CR.TaskShape and path in (CR.evaluation, CR.execution):
            kind = shapes.value(shape, SH["class"])
            spec = CR.EvaluationSpec if path == CR.evaluation else CR.ExecutionSpec
            either = [BNode(), BNode()]
            for option, name in zip(either, (kind, spec), strict=True):
                shapes.add((option, SH["class"], name))
            shapes.remove((shape, SH["class"], kind))
            shapes.add((shape, SH["or"], Collection(shapes, BNode(), either).uri))
    return shapes


def main() -> None:
    """Print the nodes of each kind in each file; end with 1 where one does not conform."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    arguments = parser.parse_args()
    validate = require("pyshacl", "checking shapes").validate
    shapes = shapes_of(arguments.shapes / "croissant-tasks-shapes.ttl")
    ontology = Graph().parse(arguments.shapes / "croissant-tasks.ttl")
    failed = False
    for file in arguments.files:
        data = Graph().parse(file, format="json-ld")
        kinds = ("TaskProblem", "TaskSolution", "EvaluationTask", "EvaluationResult")
        counts = ", ".join(f"{len(list(data.subjects(RDF.type, CR[kind])))} {kind}" for kind in kinds)
        conforms, _, report = validate(data, shacl_graph=shapes, ont_graph=ontology, inference="rdfs")
        print(f"{file}: {counts}: {'conforms' if conforms else report}")
        failed |= not conforms
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
