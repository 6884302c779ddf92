"""Boards on the Hub: `eval.yaml`, results for model repos, and the leaderboard that a server answers with."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import huggingface_hub.constants
import pytest
import yaml
from huggingface_hub import HfApi, parse_eval_result_entries
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, RepositoryNotFoundError

import shiftdata as sd
from builders.describe.card import SIZES, render_card
from builders.describe.renderings import renderings
from shiftdata.bench.leaderboard import hub, leaderboard
from shiftdata.cli.app import main as cli
from shiftdata.data.format.benchmark import render_benchmark
from shiftdata.data.format.manifest import Manifest
from tests.bench.submissions import part, submitted, written
from tests.serve.serving import TOKEN, request, serving
from tests.tiny import edit_file, edit_manifest

TASK = "gf_k2_mu10"
MODEL = "https://huggingface.co/lab/high"


@pytest.fixture(scope="module")
def submissions(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models, two of them by the protocol's words, an oracle, and a task that is not in `eval.yaml`."""
    folder = tmp_path_factory.mktemp("submissions")
    task, words = sd.task(tiny, "group-fairness", k=2, mu=0.1), "group-fairness mu=0.1 k=2"
    for name, share, said, url in (
        ("low", 0.3, words, ""),
        ("high", 0.95, TASK, MODEL),
        ("high again", 0.9, words, MODEL),
        ("mid: *x", 0.6, words, "https://arxiv.org/abs/2001.00001"),
    ):
        rows = [part(task, "test", share)]
        written(folder, f"{name[:8]}.parquet", submitted(task, rows, said, method=name, url=url))
    best = [part(task, "test", 1.0)]
    written(folder, "oracle.parquet", submitted(task, best, words, method="tuned", rule="oracle"))
    other = sd.task(tiny, "group-fairness", k=4, mu=0.2)
    written(folder, "other.parquet", submitted(other, method="elsewhere"))
    return folder


@pytest.fixture
def served(tiny: Path, submissions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the dataset, and its leaderboard next to it."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    shutil.copytree(tiny, tmp_path / "shift" / "tiny")
    data = str(tmp_path / "shift")
    assert cli(["leaderboard", str(submissions), "--data", data, "--served", data]) == 0
    return tmp_path / "shift"


def test_eval_yaml_has_the_fields_of_the_hub(tiny):
    benchmark = yaml.safe_load((tiny / "eval.yaml").read_text(encoding="utf-8"))
    assert list(benchmark) == ["name", "description", "evaluation_framework", "tasks"]
    assert benchmark["evaluation_framework"] == "shiftdata"
    assert benchmark["tasks"][0] == {"id": TASK, "config": TASK, "split": "test"}


def test_a_split_that_is_no_config_is_no_task(tiny):
    manifest = Manifest.read(tiny)
    of_keys = [replace(split, is_config=False) for split in manifest.canonical_splits]
    without = replace(manifest, canonical_splits=of_keys)
    assert render_benchmark(without) == ""
    assert "eval.yaml" not in renderings(without)


def test_an_eval_yaml_of_other_tasks_is_found(copy):
    edit_file(copy, "eval.yaml", lambda data: data.replace(b'"split": "test"', b'"split": "train"'))
    assert [(problem.path, problem.kind) for problem in sd.verify(copy)] == [("eval.yaml", "eval")]


def test_a_card_has_the_tags_of_its_papers_and_a_size_of_the_hub(tiny):
    cited = "A. Paper. arXiv:2001.00001v2. Another, arXiv:2002.00002; arXiv:2001.00001."
    front = yaml.safe_load(render_card(replace(Manifest.read(tiny), citation=cited)).split("---\n")[1])
    assert front["tags"][-2:] == ["arxiv:2001.00001", "arxiv:2002.00002"]
    assert "arxiv" not in str(yaml.safe_load((tiny / "README.md").read_text().split("---\n")[1])["tags"])
    assert list(SIZES.values())[5:7] == ["10M<n<100M", "100M<n<1B"]


def test_results_for_model_repos_are_read_back(tiny, submissions, tmp_path):
    out = str(tmp_path)
    options = ["--data", str(tiny.parent), "--eval-results", out, "--owner", "lab"]
    assert cli(["leaderboard", str(submissions), *options]) == 0
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.yaml"))
    assert files == [f"{name}/.eval_results/tiny.yaml" for name in ("lab_high", "low", "mid_x")]
    board = leaderboard(submissions, data=tiny.parent)
    scores = {entry.card.method: entry.scores["worst"] for t in board.tables for entry in t.entries}
    for name, method, url in (("lab_high", "high", MODEL), ("low", "low", None)):
        text = (tmp_path / name / ".eval_results/tiny.yaml").read_text()
        (entry,) = parse_eval_result_entries(yaml.safe_load(text))
        assert (entry.dataset_id, entry.task_id) == ("lab/tiny", TASK)
        assert (entry.value, entry.source_url, entry.date) == (scores[method].value, url, None)
        assert f"[{scores[method].low:.4f}, {scores[method].high:.4f}] over origins; 1 seed" in entry.notes


def test_the_hubs_client_gets_our_order(served, tiny, submissions):
    assert sd.verify(served / "tiny") == []
    with serving(served) as running:
        api = HfApi(endpoint=running.endpoint)
        entries = api.get_dataset_leaderboard("shift/tiny")
        whole = api.get_dataset_leaderboard("shift/tiny", base_model_only=False)
        files = api.list_repo_files("shift/tiny", repo_type="dataset")
    assert [entry.rank for entry in entries] == [1, 2, 3, 4]
    assert [entry.model_id for entry in entries] == ["lab/high", "lab/high", "mid: *x", "low"]
    (table,) = [
        table for table in leaderboard(submissions, data=tiny.parent).tables
        if not table.oracle and len(table.lines) == 4
    ]  # fmt: skip
    assert [entry.value for entry in entries] == [entry.scores["worst"].value for entry in table.entries]
    assert [entry.value for entry in whole] == [entry.value for entry in entries]
    assert (entries[0].author.username, entries[0].author.fullname) == ("lab", "A. Author")
    assert (entries[0].verified, entries[0].source["url"]) == (False, MODEL)
    assert not any("leaderboard" in path for path in files)


def test_equal_results_share_a_rank(tiny, tmp_path):
    task = sd.task(tiny, TASK)
    for name, share in (("a", 0.6), ("b", 0.95), ("c", 0.95), ("d", 0.3)):
        written(tmp_path, f"{name}.parquet", submitted(task, [part(task, "test", share)], TASK, method=name))
    results = hub.hub_results(leaderboard(tmp_path, data=tiny.parent))["tiny"][TASK]
    assert [(result.model, result.rank) for result in results] == [("b", 1), ("c", 1), ("a", 3), ("d", 4)]


def test_what_is_no_leaderboard_is_the_clients_own_error(served, tmp_path):
    file = served / "tiny.leaderboard.json"
    text, url = file.read_text(), "/api/datasets/shift/tiny/leaderboard"
    with serving(served) as running:
        api = HfApi(endpoint=running.endpoint)
        assert len(json.loads(request(running.port, "GET", f"{url}?task_id={TASK}").body)) == 4
        assert request(running.port, "GET", f"{url}?task_id=none").status == 404
        for damaged in ("[1]", '{"manifest": "x", "tasks": 3}', "[" * 10_000, f"{text}{' ' * (1 << 20)}", ""):
            file.write_text(damaged)
            with pytest.raises(EntryNotFoundError):
                api.get_dataset_leaderboard("shift/tiny")
        file.unlink()
        (tmp_path / "secret.json").write_text(text)
        file.symlink_to(tmp_path / "secret.json")
        with pytest.raises(HfHubHTTPError, match="has no leaderboard"):
            api.get_dataset_leaderboard("shift/tiny")
        with pytest.raises(RepositoryNotFoundError):
            api.get_dataset_leaderboard("shift/none")
    file.unlink()
    file.write_text(text)
    with serving(served, token=TOKEN) as running, pytest.raises(RepositoryNotFoundError):
        HfApi(endpoint=running.endpoint, token=False).get_dataset_leaderboard("shift/tiny")
    edit_manifest(served / "tiny", lambda raw: raw.update(summary="Another."))
    with serving(served) as running, pytest.raises(EntryNotFoundError, match="another build"):
        HfApi(endpoint=running.endpoint).get_dataset_leaderboard("shift/tiny")
