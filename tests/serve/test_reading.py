"""Real clients read existing folders through the mirror."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pyarrow.parquet as pq
import pytest
from huggingface_hub import DatasetCard, HfApi, HfFileSystem, hf_hub_download
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

import shiftdata
from shiftdata.cli.app import main
from shiftdata.data.format.addresses import absolute, relative
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import CROISSANT
from shiftdata.errors import InputError
from shiftdata.files import sha256_of
from shiftdata.serve import listings
from tests.serve.serving import TOKEN, Running, client, request, serving

SHARD = "data/mini/test-00000-of-00001.parquet"
REPO = "datasets/shift/tiny"

LOADING = """
import json
from datasets import load_dataset
from huggingface_hub import DatasetCard, HfFileSystem, hf_hub_download, snapshot_download
said = {}
whole = load_dataset("shift/tiny", "mini", split="test")
said["keys"] = list(whole["key"])
said["streamed"] = [row["key"] for row in load_dataset("shift/tiny", "mini", split="test", streaming=True)]
virtual = load_dataset("shift/tiny", "gf_k2_mu10")
said["virtual"] = {split: part.num_rows for split, part in virtual.items()}
train = load_dataset("shift/tiny", "gf_k2_mu10", split="train", streaming=True)
said["virtual_streamed"] = sum(1 for _ in train)
said["picture"] = list(next(iter(whole))["image"].size)
said["snapshot"] = snapshot_download("shift/tiny", repo_type="dataset")
said["card"] = DatasetCard.load("shift/tiny").data.pretty_name
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def loaded(reader: Running, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of `datasets` and `huggingface_hub`, in a process of their own."""
    found: dict[str, Any] = client(reader.endpoint, tmp_path_factory.mktemp("client"), LOADING)
    return found


def api(reader: Running) -> HfApi:
    return HfApi(endpoint=reader.endpoint)


def test_load_dataset_gives_the_rows_of_the_shards(loaded, tiny):
    keys = pq.read_table(tiny / SHARD, columns=["key"])["key"].to_pylist()
    assert loaded["keys"] == loaded["streamed"] == keys


def test_a_virtual_config_is_filtered_both_ways(loaded, tiny):
    splits = Manifest.read(tiny).splits_of("gf_k2_mu10")
    assert loaded["virtual"] == {name: split.rows for name, split in splits.items()}
    assert loaded["virtual_streamed"] == splits["train"].rows


def test_a_snapshot_is_the_folder(loaded, tiny):
    snapshot = Path(loaded["snapshot"])
    for path in sorted(tiny.rglob("*")):
        if path.is_file():
            came = (snapshot / path.relative_to(tiny)).read_bytes()
            if path.name == "croissant.json":
                assert b'"contentUrl": "http://127.0.0.1:' in came
                came = relative(came)
            assert came == path.read_bytes()


def test_the_card_is_read(loaded, tiny):
    assert loaded["card"] == DatasetCard.load(tiny / "README.md").data.pretty_name


def test_a_download_that_is_cut_goes_on_where_it_was(tiny, tiny_out, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 10_000)  # what it keeps at a time
    with serving(tiny_out) as running:
        running.cut_next = True
        options = {"repo_type": "dataset", "endpoint": running.endpoint, "cache_dir": tmp_path}
        path = Path(hf_hub_download("shift/tiny", SHARD, **options))
        assert path.read_bytes() == (tiny / SHARD).read_bytes()
        assert not running.cut_next
        sent = running.sent
        assert path.stat().st_size <= sent < path.stat().st_size + 10_000  # a rest of a piece came twice
        assert hf_hub_download("shift/tiny", SHARD, **options) == str(path)
        assert running.sent == sent  # one more HEAD and no more


def test_what_a_client_has_is_not_sent(reader, tiny):
    url = f"/{REPO}/resolve/main/{SHARD}"
    first = request(reader.port, "GET", url)
    assert first.body == (tiny / SHARD).read_bytes()
    assert first.headers["etag"] == f'"{sha256_of(tiny / SHARD)}"'
    for tags in (first.headers["etag"], "*", f'"other", W/{first.headers["etag"]}'):
        again = request(reader.port, "GET", url, headers={"If-None-Match": tags})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert request(reader.port, "GET", url, headers={"If-None-Match": '"other"'}).status == 200


def test_a_range_of_another_version_is_the_whole_file(reader, tiny):
    url, whole = f"/{REPO}/resolve/main/README.md", (tiny / "README.md").read_bytes()
    etag = request(reader.port, "HEAD", url).headers["etag"]
    same = request(reader.port, "GET", url, headers={"Range": "bytes=5-9", "If-Range": etag})
    assert (same.status, same.body, same.headers["content-range"]) == (
        206,
        whole[5:10],
        f"bytes 5-9/{len(whole)}",
    )
    other = request(reader.port, "GET", url, headers={"Range": "bytes=5-9", "If-Range": '"other"'})
    assert (other.status, other.body) == (200, whole)


def test_head_says_what_get_would(reader, tiny):
    for extra in ({}, {"Range": "bytes=-7"}):
        head, get = (
            request(reader.port, method, f"/{REPO}/resolve/main/README.md", headers=extra)
            for method in ("HEAD", "GET")
        )
        ignored = {"date"}
        assert head.body == b""
        assert {k: v for k, v in head.headers.items() if k not in ignored} == {
            k: v for k, v in get.headers.items() if k not in ignored
        }
        assert int(head.headers["content-length"]) == len(get.body)
        assert len(head.headers["x-repo-commit"]) == 40


def test_the_file_system_lists_and_reads_ranges(reader, tiny):
    system = HfFileSystem(endpoint=reader.endpoint, skip_instance_cache=True)
    listed = {path.removeprefix(f"{REPO}/") for path in system.find(REPO)}
    assert listed == {str(path.relative_to(tiny)) for path in tiny.rglob("*") if path.is_file()}
    inside = {path.name for path in (tiny / "data").iterdir()}
    assert set(system.ls(f"{REPO}/data", detail=False)) == {f"{REPO}/data/{name}" for name in inside}
    whole = (tiny / SHARD).read_bytes()
    assert system.cat_file(f"{REPO}/{SHARD}", start=10, end=30) == whole[10:30]
    with system.open(f"{REPO}/{SHARD}") as stream:
        stream.seek(-100, os.SEEK_END)
        assert stream.read() == whole[-100:]
    assert (
        system.info(f"{REPO}/{SHARD}", expand_info=True)["last_commit"].oid
        == api(reader).dataset_info("shift/tiny").sha
    )
    assert not system.exists(f"{REPO}/nothing")


def test_a_dataset_has_one_branch_and_one_commit(reader):
    head = api(reader).dataset_info("shift/tiny").sha
    (commit,) = api(reader).list_repo_commits("shift/tiny", repo_type="dataset", formatted=True)
    refs = api(reader).list_repo_refs("shift/tiny", repo_type="dataset")
    (branch,) = refs.branches
    assert (branch.name, branch.target_commit, refs.tags) == ("main", head, [])
    assert commit.commit_id == head
    assert api(reader).dataset_info("shift/tiny", revision=head).sha == head


def test_who_has_the_token_is_one_user(tiny_out):
    with serving(tiny_out, token=TOKEN) as running:
        assert HfApi(endpoint=running.endpoint, token=TOKEN).whoami()["name"] == "shift"
        HfApi(endpoint=running.endpoint, token=TOKEN).auth_check("shift/tiny", repo_type="dataset")
        with pytest.raises(RepositoryNotFoundError):
            HfApi(endpoint=running.endpoint, token=False).auth_check("shift/tiny", repo_type="dataset")


def test_shiftdata_verifies_and_takes_tasks_from_it(reader, tiny, capsys):
    address = f"hf+{reader.endpoint}/datasets/shift/tiny"
    assert main(["verify", address]) == 0
    assert "all well" in capsys.readouterr().out
    assert main(["task", address, "group-fairness", "k=2", "mu=0.1"]) == 0
    assert "train" in capsys.readouterr().out
    rows = shiftdata.load_dataset(address, "metadata", split="test", streaming=True)
    assert next(iter(rows))["key"] == pq.read_table(tiny / SHARD, columns=["key"])["key"][0].as_py()


def test_a_server_with_a_token_is_not_read_by_plain_datasets(tiny_out, tmp_path, monkeypatch):
    """It would be asked without the token, and say that there is no such file."""
    with serving(tiny_out, token=TOKEN) as running:
        (tmp_path / "tokens.json").write_text(json.dumps({running.endpoint: TOKEN}))
        monkeypatch.setenv("SHIFTDATA_TOKENS", str(tmp_path / "tokens.json"))
        address = f"hf+{running.endpoint}/datasets/shift/tiny"
        with pytest.raises(InputError, match=r"does not get the token of .* run `shiftdata fetch hf\+http"):
            shiftdata.load_dataset(address, split="test")


def test_examples_are_read_by_byte_ranges(tiny, tiny_out):
    """A picture costs far fewer bytes than the shard that contains it."""
    with serving(tiny_out) as running:
        task = shiftdata.task(f"hf+{running.endpoint}/datasets/shift/tiny", "group-fairness", k=2, mu=0.1)
        pictures = task.dataset("test")
        got = [pictures[0]]  # the metadata, with where each picture lies, comes before the first one
        before = running.sent
        got.append(pictures[len(pictures) // 2])
        sent = running.sent - before
    local = shiftdata.task(str(tiny), "group-fairness", k=2, mu=0.1).dataset("test")
    assert [example[1:] for example in got] == [local[at][1:] for at in (0, len(local) // 2)]
    assert 0 < sent < (tiny / SHARD).stat().st_size / 10


def test_a_shuffled_epoch_comes_by_several_ranges_a_request(tiny, tiny_out):
    with serving(tiny_out) as running:
        far = shiftdata.task(f"hf+{running.endpoint}/datasets/shift/tiny")
        epochs = []
        for task in (far, shiftdata.task(tiny)):
            with task.loader(sampler="shuffle", batch_size=16) as loader:
                epochs.append([(x.numpy().tobytes(), known["key"]) for x, _, known in loader])
                reader = loader.examples.reader
            if task is far:
                assert reader.gives_several
                assert reader.stats["requests"] <= len(epochs[0])
    assert epochs[0] == epochs[1]


def test_a_changed_file_is_a_new_commit(copy, tmp_path):
    with serving(copy.parent) as running:
        before = api(running).dataset_info("shift/tiny").sha
        (copy / "README.md").write_text("---\npretty_name: New\n---\nother text")
        path = f"/{REPO}/resolve/main/README.md"
        answer = request(running.port, "GET", path)  # at once, before the listing is due
        assert answer.body == (copy / "README.md").read_bytes()
        assert answer.headers["etag"] == f'"{sha256_of(copy / "README.md")}"'
        after = api(running).dataset_info("shift/tiny").sha
        assert after == answer.headers["x-repo-commit"] != before
        with pytest.raises(RevisionNotFoundError):
            api(running).dataset_info("shift/tiny", revision=before)


def test_a_file_under_a_false_hash_is_not_believed(copy):
    """The manifest's hash counts only where size and time agree: a mended file is hashed itself."""
    shard = copy / SHARD
    damaged = bytearray(shard.read_bytes())
    damaged[100] ^= 1
    shard.write_bytes(damaged)
    os.utime(shard)
    with serving(copy.parent) as running:
        head = request(running.port, "HEAD", f"/{REPO}/resolve/main/{SHARD}")
    assert head.headers["etag"] == f'"{hashlib.sha256(damaged).hexdigest()}"'


@pytest.mark.parametrize("of", ["the dataset", "its parent", "the parent of that"])
def test_where_datasets_lie_in_a_folder(tiny, tmp_path, of):
    shutil.copytree(tiny, tmp_path / "top" / "shift" / "tiny")
    for stray in ("top/stray.png", "top/shift/stray.png"):
        (tmp_path / stray).touch()
    root = {"the dataset": tmp_path / "top/shift/tiny", "its parent": tmp_path / "top/shift"}.get(
        of, tmp_path / "top"
    )
    with serving(root) as running:
        assert [repo.id for repo in api(running).list_datasets()] == ["shift/tiny"]


def test_a_dataset_is_a_folder_with_a_manifest_or_a_card(tmp_path):
    paths = ["plain/README.md", "plain/notes.txt", "lab/one/manifest.json", "lab/two/README.md"]
    strays = [
        "stray.png",
        "lab/stray.png",
        "lab/README.md",
        "lab/pictures/a.png",
        "pictures/b.png",
        ".hidden/file",
    ]
    for path in paths + strays:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("text")
    (tmp_path / "plain" / ".secret").write_text("secret")
    with serving(tmp_path) as running:
        names = [repo.id for repo in api(running).list_datasets()]
        assert names == ["lab/one", "lab/two", "shift/plain"]
        assert [repo.id for repo in api(running).list_datasets(author="lab", limit=1)] == ["lab/one"]
        assert [repo.id for repo in api(running).list_datasets(search="TWO")] == ["lab/two"]
        files = api(running).list_repo_files("shift/plain", repo_type="dataset")
        assert sorted(files) == ["README.md", "notes.txt"]
        (tmp_path / "lab" / "three").mkdir()
        (tmp_path / "lab" / "three" / "README.md").write_text("new")
        running.library._listed_at = 0.0  # a second later
        assert api(running).list_repo_files("lab/three", repo_type="dataset") == ["README.md"]


def test_a_large_tree_comes_in_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(listings, "PAGE", 10)
    folder = tmp_path / "shift" / "many"
    for at in range(21):
        path = folder / "data" / f"{at % 3}" / f"{at}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(at))
    (folder / "README.md").write_text("many")
    with serving(tmp_path) as running:
        assert len(api(running).list_repo_files("shift/many", repo_type="dataset")) == 22
        assert sum(line.startswith("GET /api/datasets/shift/many/tree") for line in running.asked) == 3
        listed = api(running).list_repo_tree("shift/many", "data", repo_type="dataset")
        assert [entry.path for entry in listed] == ["data/0", "data/1", "data/2"]


def test_people_see_a_page(reader):
    front = request(reader.port, "GET", "/")
    assert front.headers["content-type"] == "text/html; charset=utf-8"
    assert b"shift/tiny" in front.body
    assert f"export HF_ENDPOINT={reader.endpoint}".encode() in front.body
    page = request(reader.port, "GET", f"/{REPO}").body.decode()
    assert f"/{REPO}/resolve/main/{SHARD}" in page


def test_a_page_runs_nothing_that_a_card_says(tmp_path):
    (tmp_path / "shift" / "evil").mkdir(parents=True)
    (tmp_path / "shift" / "evil" / "README.md").write_text("<script>alert(1)</script>")
    (tmp_path / "shift" / "evil" / "a<b>.html").write_text("<script>alert(1)</script>")
    with serving(tmp_path) as running:
        page = request(running.port, "GET", "/datasets/shift/evil")
        assert b"<script>" not in page.body
        assert b"a&lt;b&gt;.html" in page.body
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        sent = request(running.port, "GET", "/datasets/shift/evil/resolve/main/a%3Cb%3E.html").headers
        assert (sent["content-type"], sent["x-content-type-options"]) == (
            "application/octet-stream",
            "nosniff",
        )


def test_only_datasets_are_here(reader):
    with pytest.raises(RepositoryNotFoundError, match="repo_type='dataset'"):
        api(reader).model_info("shift/tiny")
    with pytest.raises(RepositoryNotFoundError):
        api(reader).dataset_info("shift/nothing")
    with pytest.raises(RevisionNotFoundError):
        api(reader).dataset_info("shift/tiny", revision="v9")
    assert not api(reader).file_exists("shift/tiny", "nothing", repo_type="dataset")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_not_there(tmp_path):
    for name in ("open/README.md", "open/b.txt", "closed/README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    (tmp_path / "open" / "b.txt").chmod(0)
    (tmp_path / "closed").chmod(0)
    with serving(tmp_path) as running:
        assert [repo.id for repo in api(running).list_datasets()] == ["shift/open"]
        assert api(running).list_repo_files("shift/open", repo_type="dataset") == ["README.md"]
    (tmp_path / "closed").chmod(0o700)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_listings_and_answers_agree_on_the_croissant_of_a_host(reader, tiny, host):
    endpoint = f"http://{host}:{reader.port}"
    api = HfApi(endpoint=endpoint)
    info = api.dataset_info("shift/tiny", files_metadata=True)
    (listed,) = [file for file in info.siblings if file.rfilename == CROISSANT]
    (found,) = api.get_paths_info("shift/tiny", [CROISSANT], repo_type="dataset")
    (in_tree,) = [
        entry for entry in api.list_repo_tree("shift/tiny", repo_type="dataset") if entry.path == CROISSANT
    ]
    came = HfFileSystem(endpoint=endpoint).cat_file(f"datasets/shift/tiny/{CROISSANT}")
    assert came == absolute((tiny / CROISSANT).read_bytes(), f"{endpoint}/datasets/shift/tiny/resolve/main")
    assert len(came) == listed.size == found.size == in_tree.size
    digest = hashlib.sha256(came).hexdigest()
    assert digest == listed.lfs.sha256 == found.lfs.sha256 == in_tree.lfs.sha256
