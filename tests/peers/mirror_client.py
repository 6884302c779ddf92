"""Read from a mirror with the `datasets` and `huggingface_hub` of this environment; nothing of ours.

It takes the folder that the mirror serves as `shift/tiny`; the mirror itself is $HF_ENDPOINT.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import datasets
import huggingface_hub
from datasets import load_dataset
from huggingface_hub import DatasetCard, HfApi, HfFileSystem, hf_hub_download, snapshot_download


def main(folder: Path) -> None:
    """Load in both ways, and by the Hub's own means; an assertion fails where one does not work."""
    whole = load_dataset("shift/tiny", "mini", split="test")
    streamed = load_dataset("shift/tiny", "mini", split="test", streaming=True)
    assert [row["key"] for row in streamed] == list(whole["key"])
    virtual = load_dataset("shift/tiny", "gf_k2_mu10", split="train")
    assert 0 < virtual.num_rows < load_dataset("shift/tiny", "mini", split="train").num_rows
    snapshot = Path(snapshot_download("shift/tiny", repo_type="dataset"))
    address = f"{os.environ['HF_ENDPOINT']}/datasets/shift/tiny/resolve/main/".encode()
    for path in folder.rglob("*"):
        if path.is_file():
            there = (snapshot / path.relative_to(folder)).read_bytes()
            if path.name == "croissant.json":  # a mirror writes its addresses into it
                assert address in there
                there = there.replace(address, b"")
            assert there == path.read_bytes()
    assert DatasetCard.load("shift/tiny").data.configs
    card = hf_hub_download("shift/tiny", "README.md", repo_type="dataset", force_download=True)
    assert Path(card).read_bytes() == (folder / "README.md").read_bytes()
    shard = "data/mini/test-00000-of-00001.parquet"
    with HfFileSystem().open(f"datasets/shift/tiny/{shard}") as stream:
        stream.seek(-8, os.SEEK_END)
        assert stream.read() == (folder / shard).read_bytes()[-8:]
    api, files = HfApi(), {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert set(api.list_repo_files("shift/tiny", repo_type="dataset")) == files
    (commit,) = api.list_repo_commits("shift/tiny", repo_type="dataset")
    (branch,) = api.list_repo_refs("shift/tiny", repo_type="dataset").branches
    assert (branch.name, branch.target_commit) == ("main", commit.commit_id)
    assert api.repo_info("shift/tiny", repo_type="dataset", revision=commit.commit_id).sha == commit.commit_id
    print(f"datasets {datasets.__version__}, huggingface_hub {huggingface_hub.__version__}: all well")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
