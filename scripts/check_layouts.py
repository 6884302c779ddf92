"""Read exported folders by the peers' own dataset classes, and compare what they give with the task.

    python scripts/check_layouts.py PEER DATASET [--checkout FOLDER] [--torchvision FOLDER]

PEER is one of those in `PEERS`; its code comes from a checkout of its repository (`wilds` from its installed
package), which nothing here ships. Peers import torchvision: where it does not import, as beside another
build of torch, give the folder of its unpacked wheel, of which only the Python files are used.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import os
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import shiftdata as sd

#: Modules that peers import for datasets of theirs that are not read here.
UNUSED = {"pytz": (), "transformers": ("BertTokenizer",)}
#: The examples that a peer's class gives: set, key, label, domain; None: it does not say.
Seen = Counter[tuple[str | None, str, str, str | None]]


def torchvision_folder(task: sd.Task, out: Path) -> Iterator[tuple[Seen, Seen]]:
    """torchvision: `ImageFolder` over each set; its numbers are those of `class_to_label`."""
    folder = importlib.import_module("torchvision.datasets.folder").ImageFolder
    exported = sd.export(task, "imagefolder", out)
    for name in task.sets:
        data = folder(str(out / name))
        classes = exported.record["class_to_label"]
        assert data.class_to_idx == {label["folder"]: label["class"] for label in classes}
        look_at(data)
        seen = Counter((name, key(path), data.classes[number], None) for path, number in data.samples)
        yield seen, expected(task, [name], domain=False)


def wilds(task: sd.Task, out: Path) -> Iterator[tuple[Seen, Seen]]:
    """WILDS: a subclass as in docs/exporting.md, its subsets, metadata and groups."""
    exported = sd.export(task, "wilds", out)
    data = wilds_class(exported.record)(root_dir=str(out))
    groups = data._eval_grouper.metadata_to_group(data.metadata_array).tolist()
    assert data.n_classes == len(exported.record["class_to_label"])
    assert data._eval_grouper.n_groups == len(exported.record["class_to_label"]) * len(
        exported.record["domain_to_nuisance"]
    )
    right = data.y_array.clone()
    results, said = data.eval(right, data.y_array, data.metadata_array)
    assert results["acc_wg"] == 1.0, said
    for name, ours in (("train", "train"), ("val", "validation"), ("test", "test")):
        subset = data.get_subset(name)
        look_at(subset)
        seen: Seen = Counter()
        for row in subset.indices.tolist():
            domain, y = data.metadata_array[row][:2].tolist()
            assert groups[row] == y * len(exported.record["domain_to_nuisance"]) + domain
            maps = data.metadata_map
            names = (maps["y"][y], maps[exported.record["nuisance"]][domain])
            seen[ours, key(data._input_array[row]), *names] += 1
        yield seen, expected(task, [ours])


def wilds_class(record: Any) -> Any:
    """Make the subclass that a user writes."""
    import pandas as pd
    import torch
    from PIL import Image

    grouper = importlib.import_module("wilds.common.grouper")
    metrics = importlib.import_module("wilds.common.metrics.all_metrics")
    base = importlib.import_module("wilds.datasets.wilds_dataset").WILDSDataset

    version = ".".join(record["version"].split(".")[:2])

    class Exported(base):  # type: ignore[misc]
        _dataset_name = record["dataset"]
        _versions_dict = {version: {"download_url": None, "compressed_size": None}}  # noqa: RUF012

        def __init__(self, root_dir: str) -> None:
            self._version, self._split_scheme = version, "official"
            self._data_dir = self.initialize_data_dir(root_dir, download=False)
            rows = pd.read_csv(f"{self._data_dir}/metadata.csv")
            self._input_array, self._split_array = rows["img_filename"].values, rows["split"].values
            self._y_array, self._y_size = torch.tensor(rows["y"].to_list()), 1
            fields = [record["nuisance"], "y"]
            numbered = (record["domain_to_nuisance"], record["class_to_label"])
            self._metadata_map = {
                field: [value["name"] for value in values]
                for field, values in zip(fields, numbered, strict=True)
            }
            self._n_classes = len(self._metadata_map["y"])
            self._metadata_fields = list(fields)
            self._metadata_array = torch.tensor(rows[fields].values.tolist())
            self._eval_grouper = grouper.CombinatorialGrouper(self, fields)
            super().__init__(root_dir, download=False, split_scheme="official")

        def get_input(self, idx: int) -> Any:
            return Image.open(f"{self._data_dir}/{self._input_array[idx]}").convert("RGB")

        def eval(self, y_pred: Any, y_true: Any, metadata: Any) -> Any:
            return self.standard_group_eval(metrics.Accuracy(), self._eval_grouper, y_pred, y_true, metadata)

    return Exported


def domainbed(task: sd.Task, out: Path) -> Iterator[tuple[Seen, Seen]]:
    """DomainBed: `PACS`, which takes any four folders of domains, as it is."""
    peer = importlib.import_module("domainbed.datasets")
    exported = sd.export(task, "domainbed", out / "PACS")
    data = peer.PACS(str(out), [0], {"data_augmentation": True})
    assert data.num_classes == len(exported.record["class_to_label"])
    seen: Seen = Counter()
    for domain, environment in zip(exported.record["domain_to_nuisance"], data.datasets, strict=True):
        look_at(environment)
        for path, number in environment.samples:
            label = exported.record["class_to_label"][number]["name"]
            seen[None, key(path), label, domain["name"]] += 1
    yield seen, Counter({(None, *rest): count for (_, *rest), count in expected(task, task.sets).items()})


def tllib(task: sd.Task, out: Path) -> Iterator[tuple[Seen, Seen]]:
    """TLlib: `ImageList` over the list of each set."""
    peer = importlib.import_module("tllib_imagelist")
    sd.export(task, "lists", out)
    classes = (out / "classes.txt").read_text().splitlines()
    for name in task.sets:
        data = peer.ImageList(str(out), classes, str(out / f"{name}.txt"))
        look_at(data)
        seen = Counter((name, key(path), classes[number], None) for path, number in data.samples)
        yield seen, expected(task, [name], domain=False)


def nico(task: sd.Task, out: Path) -> Iterator[tuple[Seen, Seen]]:
    """NICO++: the lists of each domain, which name files from the working folder."""
    peer = importlib.import_module("domainbed.datasets")
    record = sd.export(task, "lists", out).record
    classes = (out / "classes.txt").read_text().splitlines()
    os.chdir(out)
    for phase, name in (("train", "train"), ("val", "validation"), ("test", "test")):
        seen: Seen = Counter()
        for domain in record["domain_to_nuisance"]:
            names, numbers = peer._dataset_info(f"lists/{domain['folder']}_{phase}.txt")
            look_at(peer.StandardDataset(names, numbers, peer.get_val_transformer()))
            seen.update(
                (name, key(path), classes[number], domain["name"])
                for path, number in zip(names, numbers, strict=True)
            )
        yield seen, expected(task, [name])


def clip_benchmark(task: sd.Task, out: Path) -> Iterator[tuple[Seen, Seen]]:
    """CLIP_benchmark: `build_dataset` of `wds/`, read by four workers as its command does.

    It gives no keys, so that pictures are known by their pixels.
    """
    from torch.utils.data import DataLoader

    peer = importlib.import_module("clip_benchmark.datasets.builder")
    sd.export(task, "clip-benchmark", out)
    for name, rows in task.sets.items():
        data = peer.build_dataset("wds/ours", root=str(out), split=name, transform=pixels)
        assert all("{c}" in template for template in data.templates)
        batches = DataLoader(data.batched(64), batch_size=None, num_workers=4)
        pairs = (pair for batch in batches for pair in zip(*batch, strict=True))
        seen = Counter((name, picture, data.classes[number], None) for picture, number in pairs)
        assert rows.counts is None
        examples, labels = task.dataset(name), task.metadata.label[rows.indices].tolist()
        named = ((examples[at][0], task.metadata.labels[label]) for at, label in enumerate(labels))
        yield seen, Counter((name, pixels(x), label, None) for x, label in named)


def pixels(picture: Any) -> str:
    """Hash the pixels of a picture."""
    import numpy as np
    from PIL import Image

    array = np.asarray(picture.convert("RGB") if isinstance(picture, Image.Image) else picture)
    return hashlib.sha256(repr(array.shape).encode() + array.tobytes()).hexdigest()


PEERS: dict[str, Callable[[sd.Task, Path], Iterator[tuple[Seen, Seen]]]] = {
    "torchvision": torchvision_folder,
    "wilds": wilds,
    "domainbed": domainbed,
    "tllib": tllib,
    "nico": nico,
    "clip-benchmark": clip_benchmark,
}
#: Files of a checkout that are loaded by themselves, under a name of our own.
FILES = {
    "tllib": ("tllib_imagelist", "tllib/vision/datasets/imagelist.py"),
}


def key(path: str) -> str:
    return Path(path).name.partition(".")[0]


def look_at(data: Any) -> None:
    """Decode a few pictures through the peer's own code."""
    for number in range(0, len(data), max(1, len(data) // 7)):
        assert data[number] is not None


def expected(task: sd.Task, sets: Any, *, domain: bool = True) -> Seen:
    """Count the rows of a task."""
    counts: Seen = Counter()
    metadata = task.metadata
    for name in sets:
        rows = task.sets[name]
        table = metadata.table.take(rows.indices)
        table = table if rows.counts is None else table.append_column("count", [rows.counts])
        for row in table.to_pylist():
            nuisance = metadata.nuisances[row[metadata.nuisance_column]] if domain else None
            counts[name, row["key"], metadata.labels[row["label"]], nuisance] += row.get("count", 1)
    return counts


def prepare(peer: str, checkout: Path | None, torchvision: Path | None) -> None:
    """Make the peer's modules importable."""
    import pandas  # noqa: F401  - it looks for pytz, and must not find ours
    import torch.utils.data.dataset as torch_datasets

    for name, members in UNUSED.items():
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = types.ModuleType(name)
            vars(sys.modules[name]).update(dict.fromkeys(members))
    if not hasattr(torch_datasets, "T_co"):  # tllib names it in annotations, and newer torch has it no more
        torch_datasets.T_co = Any
    if importlib.util.find_spec("torch_scatter") is None:  # it must be compiled; wilds takes means by it
        sys.modules["torch_scatter"] = types.ModuleType("torch_scatter")
        vars(sys.modules["torch_scatter"])["scatter"] = scatter
    if torchvision is not None:
        package = types.ModuleType("torchvision")
        package.__path__ = [str(torchvision / "torchvision")]
        vars(package)["get_image_backend"] = lambda: "PIL"
        sys.modules["torchvision"] = package
    if checkout is None:
        return
    if peer not in FILES:
        sys.path.insert(0, str(checkout))
        return
    name, file = FILES[peer]
    spec = importlib.util.spec_from_file_location(name, checkout / file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{checkout / file} cannot be loaded")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


def scatter(src: Any, index: Any, dim_size: int, reduce: str) -> Any:
    """Take means, which is all that wilds uses of torch_scatter."""
    assert reduce == "mean"
    counts = index.bincount(minlength=dim_size).clamp(min=1)
    return src.new_zeros(dim_size).index_add(0, index, src) / counts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("dataset")
    parser.add_argument("--config", help="a canonical split (default: the default base)")
    parser.add_argument("--checkout", type=Path, help="the peer's repository")
    parser.add_argument("--torchvision", type=Path, help="an unpacked wheel of it, if it does not import")
    options = parser.parse_args()
    prepare(options.peer, options.checkout, options.torchvision)
    task = sd.task(options.dataset, options.config)
    wrong = total = 0
    with tempfile.TemporaryDirectory() as scratch:
        for seen, wanted in PEERS[options.peer](task, Path(scratch) / "out"):
            total += wanted.total()
            wrong += (seen - wanted).total() + (wanted - seen).total()
        os.chdir("/")
    print(f"{options.peer}: {total:,} examples of {task.metadata.name} ({task.describe()}), {wrong:,} differ")
    return 1 if wrong or not total else 0


if __name__ == "__main__":
    raise SystemExit(main())
