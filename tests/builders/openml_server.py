"""A small OpenML: the calls by which the `openml` client gets a dataset with all its files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

DAY = "Thu, 01 Aug 2024 00:00:00 GMT"


class Handler(BaseHTTPRequestHandler):
    """The description of a dataset by its API, and a bucket with the files of all, as a store of S3 has them.

    `files` are the bytes of each file, by the number of its dataset and its name.
    """

    protocol_version = "HTTP/1.1"
    files: ClassVar[Mapping[tuple[int, str], bytes]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """Answer a call."""
        url = urlsplit(self.path)
        type(self).asked.append(f"{self.command} {self.path}")
        head, _, last = url.path.rpartition("/")
        if head == "/api/v1/xml/data":
            self._send(self._description(int(last)).encode(), "text/xml")
        elif url.path == "/datasets":
            self._send(self._listing(parse_qs(url.query)["prefix"][0]).encode(), "application/xml")
        elif (data := self.files.get((int(head.rpartition("/")[2] or 0), last))) is not None:
            self._send(data, "application/octet-stream")
        else:
            self.send_error(404)

    def do_HEAD(self) -> None:
        """Answer without the content."""
        self.do_GET()

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def _description(self, number: int) -> str:
        place = f"http://{self.headers['Host']}/datasets/{self._prefix(number)}"
        table = f"{place}/dataset_{number}.pq"
        return (
            '<oml:data_set_description xmlns:oml="http://openml.org/openml">'
            f"<oml:id>{number}</oml:id><oml:name>set {number}</oml:name><oml:version>1</oml:version>"
            "<oml:description>A set</oml:description><oml:format>arff</oml:format>"
            f"<oml:url>{place}/data.arff</oml:url><oml:parquet_url>{table}</oml:parquet_url>"
            f"<oml:minio_url>{table}</oml:minio_url><oml:file_id>1</oml:file_id>"
            "<oml:status>active</oml:status></oml:data_set_description>"
        )

    def _listing(self, prefix: str) -> str:
        contents = (
            f"<Contents><Key>{self._prefix(number)}/{name}</Key><LastModified>2024-08-01T00:00:00.000Z"
            f'</LastModified><ETag>"{_tag(data)}"</ETag><Size>{len(data)}</Size>'
            "<StorageClass>STANDARD</StorageClass></Contents>"
            for (number, name), data in sorted(self.files.items())
            if f"{self._prefix(number)}/{name}".startswith(prefix)
        )
        return (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>datasets</Name><Prefix>{prefix}</Prefix><MaxKeys>1000</MaxKeys>"
            f"<IsTruncated>false</IsTruncated>{''.join(contents)}</ListBucketResult>"
        )

    @staticmethod
    def _prefix(number: int) -> str:
        return f"{number // 10_000:04}/{number}"

    def _send(self, data: bytes, kind: str) -> None:
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0] or 0)
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data) - start))
        self.send_header("Last-Modified", DAY)
        self.send_header("ETag", f'"{_tag(data)}"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[start:])


def _tag(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
