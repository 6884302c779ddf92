"""`pretrain`: an encoder trained without labels, as a folder that `backbone="run:FOLDER"` reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Data
from shiftdata.baselines.models import backbone_of
from shiftdata.baselines.pretrained.model import ENCODER, Pretrained, weights_hash
from shiftdata.baselines.run import CHECKPOINT, network_for, run_identity, train_steps
from shiftdata.baselines.sets import SIDE, modality_of, source_of
from shiftdata.baselines.training import Training
from shiftdata.baselines.zoo.pretraining import PRETRAINING, Contrastive
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.sampling import FixedRows, Ranks
from shiftdata.evaluation.tasks import Task
from shiftdata.files import write_text
from shiftdata.progress import shows

#: AdamW at a rate that small networks bear, views as MoCo v2 makes them.
SETTINGS = Training(steps=2000, batch=256, learning_rate=0.003, weight_decay=1e-4, augment="contrastive")


@shows("pretrain", on_step=" steps")
def pretrain(
    task: Task,
    method: str | Contrastive = "simclr",
    *,
    backbone: str | torch.nn.Module = "small-cnn",
    side: int | None = None,
    training: Training = SETTINGS,
    seed: int = 0,
    device: str = "cpu",
    folder: str | Path | None = None,
    save_every: int = 100,
    on_step: Callable[[int, int], object] = lambda done, total: None,
    **hyper: float,
) -> Pretrained:
    """Train an encoder on the pictures of a task's `fit` and `unlabelled` sets, without a label.

    Other arguments are those of `train`; `backbone` is one that reads pixels, also "run:FOLDER", which goes
    on from its weights. The `flip` of `training` is for things, not for letters.

    Args:
        task: from `sd.task`.
        method: "simclr", "moco", or a `Contrastive` of your own.
        folder: run.json and encoder.pt go there, and a checkpoint from which a stopped training goes on.

    """
    if not isinstance(method, str):
        algorithm = method
    elif method in PRETRAINING:
        algorithm = PRETRAINING[method](**dict[str, Any](hyper))
    else:
        raise not_found("method of pretraining", method, PRETRAINING, "Others: `shiftdata train`.")
    rows, sets = unlabelled_rows(task)
    if modality_of(task.metadata) != "image" or len(rows) < 2:
        raise InputError(f"{len(rows):,} rows of {task.describe()}: pretraining reads pictures, 2 or more")
    side = side or (backbone_of(backbone).side if isinstance(backbone, str) else SIDE)
    source = source_of(task.metadata, "scratch", side=side)
    # Labels are not here: a method cannot read what it is not given.
    nothing = np.zeros(len(rows), np.int64)
    sampler = FixedRows(np.arange(len(rows)), seed=seed)
    data = Data(source, rows, nothing, 1, group=nothing, domain=nothing, sampler=sampler)
    network, prepare, about = network_for(source, rows, 1, backbone, seed)
    trainer = Trainer(algorithm, network, prepare, data, training=training, seed=seed, device=device)
    record = run_identity(task, method, algorithm, about, training, seed) | {"input": [*source.shape]}
    corpus = {name: record[name] for name in ("dataset", "content_id")} | {"sets": sets, "rows": len(rows)}
    record |= {"supervision": "none", "corpora": [corpus]}
    train_steps(trainer, folder, record, save_every, on_step)
    encoder = network.encoder.cpu().eval()
    record["weights"] = weights_hash(encoder)
    if folder is not None and Ranks.of().rank == 0:
        Path(folder).mkdir(parents=True, exist_ok=True)
        torch.save(encoder.state_dict(), Path(folder) / ENCODER)
        write_text(Path(folder) / "run.json", json.dumps(record, indent=1) + "\n")
        (Path(folder) / CHECKPOINT).unlink(missing_ok=True)
    return Pretrained(
        record["method"] if folder is None else f"run:{folder}", encoder, network.n_features, prepare,
        record["weights"], size=source.shape[0], maps=network.maps, about=record,
    )  # fmt: skip


def unlabelled_rows(task: Task) -> tuple[IntArray, list[str]]:
    """Return the rows of a task's `fit` and `unlabelled` sets, each once, and the names of these sets."""
    roles = {name: {"fit", "unlabelled"} & set(each.roles) for name, each in task.sets.items()}
    names = [name for name, role in roles.items() if role]
    rows = [task.rows(name, "unlabelled" if "unlabelled" in roles[name] else "fit") for name in names]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *rows])), names
