"""Publish to the Hub, or another one: one commit, made for the head that was compared."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal, TypeAlias

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.utils.tqdm import disable_progress_bars

from builders.publish.target import Changes, Source, Target, listing_of, reads_as
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.format.paths import README
from shiftdata.data.places.http import Hub
from shiftdata.data.places.hubs import HubRepo, check_token, token_for
from shiftdata.data.places.store import OnBytes, Store, persistently
from shiftdata.errors import InputError, IntegrityError, StorageError

Operation: TypeAlias = CommitOperationAdd | CommitOperationDelete
Gated: TypeAlias = Literal["auto", "manual"]

HUB = "https://huggingface.co"
DATASET = "dataset"
CONFLICTS = (409, 412)
FILES_AT_ONCE = 20  # that are sent before progress is reported again


@dataclass(frozen=True)
class RepoOptions:
    """The options of a repo on a Hub."""

    private: bool = False
    gated: Gated | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class HubTarget(Target):
    """A dataset repo. A reader sees the commit before or the one after, each with its manifest."""

    repo: HubRepo
    options: RepoOptions

    @property
    def address(self) -> str:
        """The repo, and its server where that is not the Hub: a reader may have another $HF_ENDPOINT."""
        server = constants.ENDPOINT if constants.ENDPOINT != HUB else None
        return replace(self.repo, endpoint=self.repo.endpoint or server).address

    @property
    def web(self) -> str | None:
        """The address of `main`; the commit is not known before it is made."""
        server = self.repo.endpoint or constants.ENDPOINT
        return f"{server.rstrip('/')}/datasets/{self.repo.repo_id}/resolve/main"

    @property
    def _token(self) -> str | Literal[False]:
        if self.options.token is None:
            return token_for(self.repo.endpoint)
        return check_token(self.options.token, self.repo.endpoint or constants.ENDPOINT)

    @cached_property
    def api(self) -> HfApi:
        return HfApi(endpoint=self.repo.endpoint, token=self._token, library_name="shiftdata")

    def at(self, commit: str) -> Store:
        return Hub(replace(self.repo, revision=commit, token=self._token))

    def compare(self, source: Source) -> Changes:
        """Compare with the hashes that the server has for the head of `main`."""
        if self.repo.revision:
            raise InputError(f"{self.address} names a revision: datasets are published to main, leave it out")
        try:
            info = self.api.dataset_info(self.repo.repo_id)
        except RepositoryNotFoundError as error:
            if getattr(error.response, "status_code", None) == 401 and not self._token:
                raise
            seen = "private" if self.options.private else "public"
            note = f"there is no such repo, or you may not see it: it will be made, {seen}"
            return replace(self.compared(source, None), notes=(note,))
        is_open = self.options.private and not info.private
        notes = ("the repo is public and will be private",) if is_open else ()
        changes = self.compared(source, self.at(info.sha) if info.sha else None)
        return replace(changes, revision=info.sha, notes=notes)

    def apply(self, source: Source, changes: Changes, on_bytes: OnBytes) -> None:
        """Send the files, name them in one commit, and compare what the server then has."""
        disable_progress_bars()  # of the client: ours is on the screen
        head = changes.revision or self._make_repo()
        self._settle()
        additions = [CommitOperationAdd(path, str(source.file(path))) for path in changes.uploads]
        send = self.api.preupload_lfs_files
        for start in range(0, len(additions), FILES_AT_ONCE):
            group = additions[start : start + FILES_AT_ONCE]
            # Bytes go up before the commit; those that the server has are not sent.
            persistently(partial(send, self.repo.repo_id, group, repo_type=DATASET, free_memory=False))
            on_bytes(sum(source.files[addition.path_in_repo].bytes for addition in group))
        for addition in additions:
            path = addition.path_in_repo
            if addition.upload_info.sha256.hex() != source.files[path].sha256:
                raise IntegrityError(
                    f"{path} was changed while it was sent: nothing was published; run it again"
                )
        operations: list[Operation] = [*additions, *map(CommitOperationDelete, changes.deleted)]
        commit = self._commit(operations, f"Publish {source.version}", head)
        try:
            self._verify(source, commit)
        except IntegrityError:
            self._withdraw(commit)
            raise

    def finish(self, source: Source) -> None:
        """Apply the options of the repo, where nothing had to be sent."""
        self._settle()

    def _make_repo(self) -> str | None:
        """Make the repo; return its first commit, where it begins with one."""
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

    def _commit(self, operations: list[Operation], message: str, head: str | None) -> str:
        try:
            info = self.api.create_commit(
                self.repo.repo_id, operations, commit_message=message, repo_type=DATASET, parent_commit=head
            )
        except HfHubHTTPError as error:
            if getattr(error.response, "status_code", None) not in CONFLICTS:
                raise
            raise StorageError(
                f"{self.address} was changed by somebody else since this run looked at it: publish again, "
                "what was sent is not sent again"
            ) from error
        return str(info.oid)

    def _verify(self, source: Source, commit: str) -> None:
        """Compare what the server has in a commit; read back what it gives no hash of."""
        store = self.at(commit)
        files = listing_of(store)
        for path, record in source.files.items():
            is_same = path in files and files[path].size == record.bytes
            answer = self.is_same(source, path, files[path]) if is_same else False
            if answer is None or (answer and path in (FILE_NAME, README)):
                answer = reads_as(store, path, record)
            if not answer:
                raise IntegrityError(
                    f"{path} is not at {self.address}@{commit[:12]} as it was sent: the head has no "
                    f"{FILE_NAME} now, so that nobody uses it; publish again, or ask whoever runs the server"
                )

    def _withdraw(self, commit: str) -> None:
        """Take the manifest out of the head again, so that nobody uses it."""
        if FILE_NAME in listing_of(self.at(commit)):
            why = "Withdraw the manifest: not every file arrived as it was sent"
            self._commit([CommitOperationDelete(FILE_NAME)], why, commit)
