"""A plain script for a task, with nothing of ours but its keys: a bar for the reference methods.

Pictures: a LeNet at 32 pixels with Adam. Texts: TF-IDF of words and pairs, logistic regression. Tables:
columns standardised or one-hot, logistic regression.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import shiftdata as sd

SIDE = 32


def plain_predictions(task: sd.Task, folder: Path, cache: Path, steps: int) -> dict[str, str]:
    """Train on the training sets of a task, and predict its test set: labels by key."""
    manifest = sd.open_dataset(folder).manifest
    roles, files = manifest.roles, sorted(map(str, folder.glob(f"data/{manifest.default_base}/*.parquet")))
    every = datasets.load_dataset("parquet", data_files=files, split="all", cache_dir=str(cache))
    place = {key: number for number, key in enumerate(every["key"])}
    keys = [key for name, rows in task.sets.items() if rows.role == "fit" for key in task.keys(name)]
    asked = task.keys(task.set_of("test"))
    fit, test = (every.select([place[key] for key in these]) for these in (keys, asked))
    labels = np.array(fit[roles.label])
    if roles.modality == "image":
        numbers = lenet(fit, labels, test, steps)
    else:
        numbers = linear(fit, labels, test, roles)
    names = every.features[roles.label].names
    return {key: names[number] for key, number in zip(asked, numbers, strict=True)}


def linear(fit: datasets.Dataset, labels: Any, test: datasets.Dataset, roles: Any) -> Any:
    head = LogisticRegression(max_iter=2000)
    if roles.modality == "text":
        (column,) = roles.example
        model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), head.set_params(C=10))
        return model.fit(fit[column], labels).predict(test[column])
    model = make_pipeline(DictVectorizer(), StandardScaler(with_mean=False), head)
    return model.fit(described(fit, roles.example), labels).predict(described(test, roles.example))


def described(rows: datasets.Dataset, columns: Any) -> list[dict[str, Any]]:
    """Rows as dictionaries; a missing value is a column of its own."""
    return [
        {name if value is not None else f"{name} is missing": 1.0 if value is None else value
         for name, value in row.items()}
        for row in rows.select_columns(list(columns))
    ]  # fmt: skip


def lenet(fit: datasets.Dataset, labels: Any, test: datasets.Dataset, steps: int) -> Any:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # as `sd.train` does: small networks gain nothing from more
    model = nn.Sequential(
        *(nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 48, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(48 * 25, 128), nn.ReLU(), nn.Linear(128, int(labels.max()) + 1)),
    )
    adam = torch.optim.Adam(model.parameters(), 1e-3)
    drawn, batches = np.unique(
        np.random.default_rng(0).integers(len(labels), size=(steps, 64)), return_inverse=True
    )
    x, y = pixels(fit, drawn), torch.from_numpy(labels[drawn])
    for batch in torch.from_numpy(batches.reshape(steps, 64)):
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        adam.zero_grad()
        loss.backward()
        adam.step()
    with torch.no_grad():
        batches = np.array_split(np.arange(len(test)), -(-len(test) // 512))
        return torch.cat([model(pixels(test, batch)).argmax(1) for batch in batches]).numpy()


def pixels(rows: datasets.Dataset, numbers: Any) -> torch.Tensor:
    images = rows.select(numbers)["image"]
    pictures = [image.convert("RGB").resize((SIDE, SIDE)) for image in images]
    return torch.from_numpy(np.stack(pictures).transpose(0, 3, 1, 2) / np.float32(127.5) - 1)
