"""Names that come from a client: of files, repos and revisions. What is refused here touches no disk."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from pathlib import PurePosixPath

from shiftdata.serving.refusals import Refusal

LONGEST_PART = 255
LONGEST_PATH = 1024

REPO_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}")
REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
COMMIT_ID = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")

#: Dotted names that clients write themselves; every other one would be hidden from a listing of a folder.
DOTTED = frozenset({".gitattributes", ".gitignore", ".huggingface.yaml"})


def is_repo_part(text: str) -> bool:
    """Whether it may be an owner or the name of a repo."""
    return bool(REPO_PART.fullmatch(text)) and ".." not in text and not text.endswith((".git", ".ipynb"))


def is_ref(text: str) -> bool:
    """Whether it may be a branch or a tag: a word, or words with slashes between."""
    plain = len(text) <= 100 and ".." not in text and REF.fullmatch(text)
    return bool(plain) and not COMMIT_ID.fullmatch(text)


def is_sha256(text: object) -> bool:
    """Whether it is a sha256 in lower-case hexadecimal digits."""
    return isinstance(text, str) and bool(SHA256.fullmatch(text))


def file_path(text: object) -> str:
    """A path that a client wants to write: relative, plain, of parts that any system can store."""
    if not isinstance(text, str) or not text or len(text.encode(errors="replace")) > LONGEST_PATH:
        raise Refusal(400, f"a path is a text of 1 to {LONGEST_PATH} bytes")
    if any(unicodedata.category(letter) in ("Cc", "Cs") or letter == "\\" for letter in text):
        raise Refusal(400, f"the path {text!a} has a backslash or a control character")
    for part in text.split("/"):
        if part in ("", ".", "..") or len(part.encode()) > LONGEST_PART:
            raise Refusal(400, f"the path {text!a} must be relative, without empty parts, '.' or '..'")
        if part.startswith(".") and part not in DOTTED:
            raise Refusal(400, f"the path {text!a} is hidden: no part may start with a dot")
    return text


def check_tree(paths: Collection[str]) -> None:
    """Refuse a tree in which one path is a file and a folder."""
    for path in paths:
        for parent in PurePosixPath(path).parents:
            if str(parent) in paths:
                raise Refusal(400, f"{str(parent)!a} cannot be a file and the folder of {path!a}")
