"""Publish to a Hub, or a mirror with its protocol: one commit, made for the head that the plan has seen."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, TypeAlias

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile

from builders.describe.renderings import README
from builders.publish.client import groups, plain_http, tells, without_bars
from builders.publish.held import OURS, listed_files
from builders.publish.plan import Plan, Tell, Verify, compare
from builders.publish.source import Source
from shiftdata.errors import InputError, IntegrityError, StorageError
from shiftdata.files import sha256_of
from shiftdata.format.manifest import FILE_NAME, FileRecord
from shiftdata.places.hubs import HubRepo
from shiftdata.places.retry import persistently

Gated: TypeAlias = Literal["auto", "manual"]

HUB = "https://huggingface.co"
DATASET = "dataset"
CONFLICTS = (409, 412)


@dataclass(frozen=True)
class RepoOptions:
    """What is asked of a repo on a Hub; other places have no such things."""

    private: bool = False
    gated: Gated | None = None
    tag: bool = False
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class HubTarget:
    """A dataset repo. A reader sees the commit before or the one after; each has the manifest of its files.

    Files that were sent wait at the server until the commit names them, so a run that was stopped goes on.
    """

    repo: HubRepo
    options: RepoOptions

    @property
    def address(self) -> str:
        """The repo, and its server where that is not the Hub: a reader may have another $HF_ENDPOINT."""
        server = constants.ENDPOINT if self._is_mirror else None
        return replace(self.repo, endpoint=self.repo.endpoint or server).address

    @cached_property
    def _is_mirror(self) -> bool:
        return (self.repo.endpoint or constants.ENDPOINT) != HUB

    @cached_property
    def api(self) -> HfApi:
        """The client; a server given by its address gets no token that was stored for the Hub."""
        token: str | bool | None = self.options.token
        if token is None and self.repo.endpoint:
            token = os.environ.get("HF_TOKEN") or False
        # A mirror stores what comes this way file by file, as the Hub does.
        headers = {"X-Shiftdata-Upload": "lfs"} if self._is_mirror else None
        return HfApi(endpoint=self.repo.endpoint, token=token, library_name="shiftdata", headers=headers)

    def plan(self, source: Source) -> Plan:
        """Compare the hashes that the server tells for the head of `main`."""
        if self.repo.revision:
            raise InputError(f"{self.address} names a revision: datasets are published to main, leave it out")
        notes = []
        try:
            info = self.api.dataset_info(self.repo.repo_id)
        except RepositoryNotFoundError as error:
            if error.response is not None and error.response.status_code == 401 and not self._logged_in():
                raise
            seen = "private" if self.options.private else "public"
            notes.append(f"the repo is not there, or you may not see it: it will be made, {seen}")
            return compare(source, {}, lambda path, record: False, OURS, notes=tuple(notes))
        if self.options.private and not info.private:
            notes.append("the repo is public and will be private")
        there, old = self._tree(info.sha), listed_files(self._bytes(FILE_NAME, info.sha))

        def is_same(path: str, record: FileRecord) -> bool:
            told = tells(there[path], source, path, record)
            listed = path in old and old[path].sha256 == record.sha256 and there[path].size == record.bytes
            return listed if told is None else told

        plan = compare(source, there, is_same, OURS | set(old), revision=info.sha, notes=tuple(notes))
        self._refuse_second_tag(source, plan)
        return plan

    def carry_out(self, source: Source, plan: Plan, verify: Verify, tell: Tell) -> str:
        """Send the files, name them in one commit, and compare what the server then says."""
        with without_bars(), plain_http() if self._is_mirror else nullcontext():
            head = plan.revision or self._make_repo()
            self._settle()
            additions = [CommitOperationAdd(path, str(source.folder / path)) for path in plan.uploads]
            for group in groups(source, additions):
                persistently(partial(self._send, group))
                tell(sum(source.files[addition.path_in_repo].bytes for addition in group))
            _refuse_changed(source, additions)
            done = self._commit(source, [*additions, *map(CommitOperationDelete, plan.deleted)], head)
            try:
                self._verify(source, done, verify)
            except IntegrityError:
                self._withdraw(done)
                raise
        return done

    def finish(self, source: Source, revision: str | None) -> str:
        """Set what was asked of the repo, and the tag of the version."""
        self._settle()
        if not self.options.tag:
            return ""
        name = _tag_of(source)
        if name not in self._tags():
            self.api.create_tag(self.repo.repo_id, tag=name, revision=revision, repo_type=DATASET)
        return f"tag {name}"

    def _logged_in(self) -> bool:
        return bool(self.api.token or (self.api.token is None and _stored_token()))

    def _make_repo(self) -> str | None:
        """Make the repo; give its first commit, where it begins with one."""
        self.api.create_repo(
            self.repo.repo_id, repo_type=DATASET, private=self.options.private or None, exist_ok=True
        )
        return self.api.dataset_info(self.repo.repo_id).sha

    def _settle(self) -> None:
        """Make the repo private, or gated, before anything lies in it; nothing is made more open."""
        info = self.api.dataset_info(self.repo.repo_id)
        private = True if self.options.private and not info.private else None
        gated = self.options.gated if self.options.gated and info.gated != self.options.gated else None
        if private or gated:
            self.api.update_repo_settings(self.repo.repo_id, private=private, gated=gated, repo_type=DATASET)

    def _send(self, group: Sequence[CommitOperationAdd]) -> None:
        """Send files whose bytes go up before the commit; those that are there already are not sent."""
        self.api.preupload_lfs_files(self.repo.repo_id, additions=group, repo_type=DATASET, free_memory=False)

    def _commit(
        self,
        source: Source,
        operations: Sequence[CommitOperationAdd | CommitOperationDelete],
        head: str | None,
    ) -> str:
        said = f"{source.name} {source.manifest.version}, content {source.manifest.content_id[:16]}"
        try:
            made = self.api.create_commit(
                self.repo.repo_id,
                operations,
                commit_message=f"Publish {said}",
                repo_type=DATASET,
                parent_commit=head,
            )
        except HfHubHTTPError as error:
            if error.response is None or error.response.status_code not in CONFLICTS:
                raise
            raise StorageError(
                f"{self.address} was changed by somebody else since this run looked at it: publish again, "
                "what was sent need not be sent again"
            ) from error
        return str(made.oid)

    def _verify(self, source: Source, commit: str, verify: Verify) -> None:
        """Compare what the server tells of a commit; what it has no hash of is fetched and hashed."""
        there = self._tree(commit)
        for path, record in source.files.items():
            entry = there.get(path)
            well = entry is not None and entry.size == record.bytes
            if well and entry is not None and verify == "hash":
                told = tells(entry, source, path, record)
                if told is None or path in (FILE_NAME, README):
                    told = self._hash(path, commit) == record.sha256
                well = told
            if not well:
                raise IntegrityError(
                    f"{path} is not at {self.address}@{commit[:12]} as it was sent: the head has no "
                    f"{FILE_NAME} now, so that nobody believes it; publish again, or tell who runs the server"
                )

    def _withdraw(self, commit: str) -> None:
        """Take the manifest out of the head again, so that nobody believes it."""
        if FILE_NAME not in self._tree(commit):
            return
        self.api.create_commit(
            self.repo.repo_id,
            [CommitOperationDelete(FILE_NAME)],
            commit_message="Withdraw the manifest: not every file arrived as it was sent",
            repo_type=DATASET,
            parent_commit=commit,
        )

    def _tree(self, commit: str | None) -> Mapping[str, RepoFile]:
        """Every file of a commit; of a repo without any, none."""
        if commit is None:
            return {}
        found = self.api.list_repo_tree(self.repo.repo_id, recursive=True, revision=commit, repo_type=DATASET)
        return {entry.path: entry for entry in found if isinstance(entry, RepoFile)}

    def _hash(self, path: str, commit: str) -> str:
        with tempfile.TemporaryDirectory() as scratch:
            return sha256_of(self._fetch(path, commit, scratch))

    def _bytes(self, path: str, commit: str | None) -> bytes | None:
        """A small file of a commit, if it is there."""
        with tempfile.TemporaryDirectory() as scratch:
            try:
                return self._fetch(path, commit, scratch).read_bytes() if commit else None
            except EntryNotFoundError:
                return None

    def _fetch(self, path: str, commit: str | None, scratch: str) -> Path:
        """Fetch a file past every cache."""
        return Path(
            self.api.hf_hub_download(
                self.repo.repo_id, path, revision=commit, repo_type=DATASET, local_dir=scratch
            )
        )

    def _tags(self) -> Mapping[str, str]:
        refs = self.api.list_repo_refs(self.repo.repo_id, repo_type=DATASET)
        return {tag.name: tag.target_commit for tag in refs.tags}

    def _refuse_second_tag(self, source: Source, plan: Plan) -> None:
        if not self.options.tag:
            return
        name, tags = _tag_of(source), self._tags()
        if name in tags and (tags[name] != plan.revision or not plan.idle):
            raise InputError(
                f"{self.address} has the tag {name} at another commit: what a version holds does not change; "
                "raise the recipe's version, or publish without --tag"
            )


def _refuse_changed(source: Source, additions: Sequence[CommitOperationAdd]) -> None:
    """Refuse to name files in a commit that are no longer those of the manifest."""
    for addition in additions:
        path = addition.path_in_repo
        if addition.upload_info.sha256.hex() != source.files[path].sha256:
            raise IntegrityError(f"{path} was changed while it was sent: nothing was published; run it again")


def _tag_of(source: Source) -> str:
    return f"v{source.manifest.version}"


def _stored_token() -> str | None:
    from huggingface_hub import get_token

    return get_token()
