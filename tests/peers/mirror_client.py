"""Read and write at a mirror with the `datasets` and `huggingface_hub` of this environment; nothing of ours.

It takes the folder that the mirror serves read-only as `shift/tiny`; the mirror itself is $HF_ENDPOINT.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

import datasets
import huggingface_hub
from datasets import Dataset, DatasetDict, load_dataset
from huggingface_hub import DatasetCard, HfApi, HfFileSystem, hf_hub_download, snapshot_download

LARGE = bytes(range(256)) * 220_000  # 56 MB: it comes by LFS


def main(folder: Path) -> None:
    """Everything that must work unchanged; an assertion fails where it does not."""
    read(folder)
    write()
    print(f"datasets {datasets.__version__}, huggingface_hub {huggingface_hub.__version__}: all well")


def read(folder: Path) -> None:
    """Both ways of loading, a virtual config, and the Hub's own means."""
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


def write() -> None:
    """Uploads of every kind, and what they leave."""
    rows = Dataset.from_dict({"x": list(range(100))})
    rows.push_to_hub("peer/rows")
    DatasetDict({"train": rows, "test": rows.select(range(9))}).push_to_hub("peer/both", "second")
    assert load_dataset("peer/rows", split="train")["x"][:] == list(range(100))
    assert load_dataset("peer/both", "second", split="test").num_rows == 9
    api = HfApi()
    name = f"peer/{hashlib.sha1(datasets.__version__.encode()).hexdigest()[:8]}"
    api.create_repo(name, repo_type="dataset")
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "small.txt").write_text("small")
        Path(scratch, "large.bin").write_bytes(LARGE)
        first = api.upload_folder(folder_path=scratch, repo_id=name, repo_type="dataset").oid
    api.create_tag(name, tag="v1", repo_type="dataset")
    api.create_branch(name, branch="try/this", repo_type="dataset")
    api.upload_file(path_or_fileobj=b"new", path_in_repo="small.txt", repo_id=name, repo_type="dataset")
    old = hf_hub_download(name, "small.txt", repo_type="dataset", revision="v1")
    new = hf_hub_download(name, "small.txt", repo_type="dataset")
    assert (Path(old).read_text(), Path(new).read_text()) == ("small", "new")
    assert Path(hf_hub_download(name, "large.bin", repo_type="dataset", revision=first)).read_bytes() == LARGE
    card = "---\nlicense: mit\n---\n# A card\n"
    if huggingface_hub.__version__.startswith("1."):  # its push_to_hub asks the Hub itself to check the card
        api.upload_file(
            path_or_fileobj=card.encode(), path_in_repo="README.md", repo_id=name, repo_type="dataset"
        )
    else:
        DatasetCard(card).push_to_hub(name)
    assert DatasetCard.load(name).data.license == "mit"
    api.delete_file("large.bin", repo_id=name, repo_type="dataset")
    assert api.list_repo_files(name, repo_type="dataset") == ["README.md", "small.txt"]
    assert len(api.list_repo_commits(name, repo_type="dataset")) == 5
    assert {branch.name for branch in api.list_repo_refs(name, repo_type="dataset").branches} == {
        "main",
        "try/this",
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
