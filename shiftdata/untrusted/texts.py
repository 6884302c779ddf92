"""JSON, TOML and CSV of anybody: too much of something is a `LimitError`, all else a `ValueError`."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from shiftdata.files import open_regular
from shiftdata.untrusted.limits import check, most

#: What may be too large a number, or one of too many digits; rare enough outside of texts to be looked at.
LARGE, LONG = re.compile(r"\d\.?[eE]\+?\d{3}"), re.compile(r"[\d.]{300}")
STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
Pairs = Callable[[list[tuple[str, Any]]], Any]


def read_json(
    source: Path | str | bytes,
    name: str = "",
    *,
    constants: bool = False,
    pairs: Pairs | None = None,
    limit: str = "json_bytes",
) -> Any:
    """Parse JSON, of a text or a file; `constants` allows NaN and infinities, `pairs` makes the objects."""
    name = name or (source.name if isinstance(source, Path) else "it")
    text = source if isinstance(source, str) else _text(source, name, limit)
    check(limit, len(text), name)
    bare = text
    if text.count("[") + text.count("{") > most("json_depth"):
        bare = STRING.sub("", text)
        check("json_depth", _depth(bare), name, "is nested too deeply")
    is_odd = LARGE.search(bare) or (len(bare) >= 300 and LONG.search(bare))
    if is_odd or constants:
        decoder = _decoder(name, constants, pairs)
    else:
        decoder = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=pairs) if pairs else PLAIN
    value = decoder.decode(text)
    if "\\u" in text and r"\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False, default=vars).encode()
        except UnicodeEncodeError as error:
            raise ValueError("a text has half a character, a lone surrogate") from error
    return value


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


PLAIN = json.JSONDecoder(parse_constant=_no_constant)


def _decoder(name: str, constants: bool, pairs: Pairs | None) -> json.JSONDecoder:
    """Return a decoder that looks at each number."""

    def whole(digits: str) -> int:
        check("json_digits", len(digits), name, f"has a number of {len(digits):,} digits")
        return int(digits)

    def finite(digits: str) -> float:
        check("json_digits", len(digits), name, f"has a number of {len(digits):,} digits")
        number = float(digits)
        if math.isinf(number) and not constants:
            raise ValueError(f"{digits:.40} is too large a number")
        return number

    return json.JSONDecoder(
        object_pairs_hook=pairs,
        parse_int=whole,
        parse_float=finite,
        parse_constant=float if constants else _no_constant,
    )


def _depth(bare: str) -> int:
    signs = np.frombuffer(bare.encode(errors="replace"), np.uint8)
    opens, closes = ((signs == ord(a)) | (signs == ord(b)) for a, b in ("[{", "]}"))
    depth = np.cumsum(opens.astype(np.int8) - closes.astype(np.int8), dtype=np.int64)
    return int(depth.max(initial=0))


#: Words between dots, as a key has them; quoted ones are words by then.
DOTTED = re.compile(r"(?<![\w'\"-])[\w'\"-]+(?:[ \t]*\.[ \t]*[\w'\"-]+)+")
QUOTED = re.compile(r""" "(?:[^"\\\n]|\\.)*+" | '[^'\n]*+' """, re.VERBOSE)


def read_toml(source: Path | str | bytes, name: str = "") -> dict[str, Any]:
    """Parse TOML, of a text or a file."""
    name = name or (source.name if isinstance(source, Path) else "it")
    text = _text(source, name, "toml_bytes")
    parts = (match[0].count(".") for match in DOTTED.finditer(QUOTED.sub("x", text)))
    check("toml_depth", max(parts, default=0), name, "has a key of too many parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class CsvReader:
    """The cells of each line, as `csv.reader` gives them, and `line_num`; odd quotes are a `csv.Error`."""

    def __init__(
        self, stream: Iterable[str], name: str, delimiter: str = ",", *, strict: bool = True
    ) -> None:
        self._name, self._length, self._rows = name, 0, 0
        # Python's own limit holds for the whole process, and is too low for honest texts.
        csv.field_size_limit(max(csv.field_size_limit(), most("csv_field")))
        self._reader = csv.reader(self._counted(stream), delimiter=delimiter, strict=strict)

    @property
    def line_num(self) -> int:
        return self._reader.line_num

    def __iter__(self) -> CsvReader:
        return self

    def __next__(self) -> list[str]:
        cells = next(self._reader)
        self._length, self._rows = 0, self._rows + 1
        check("csv_rows", self._rows, self._name)
        check("csv_columns", len(cells), self._name)
        return cells

    def _counted(self, stream: Iterable[str]) -> Iterator[str]:
        for line in bounded_lines(stream, self._name):
            if "\0" in line:
                raise csv.Error("it has a NUL character, which no text has")
            self._length += len(line)
            check("csv_field", self._length, self._name, f"has a row of {self._length:,} bytes or more")
            yield line


def bounded_lines(stream: Iterable[str], name: str) -> Iterator[str]:
    """Yield the lines of an open file, of which none may be longer than a row of a table."""
    longest = most("csv_field")
    lines = iter(partial(stream.readline, longest + 1), "") if isinstance(stream, io.TextIOBase) else stream
    for line in lines:
        check("csv_field", len(line), name, f"has a line of {longest:,} bytes or more")
        yield line


def read_csv(source: Path | str, name: str = "", delimiter: str = ",") -> list[dict[str, str]]:
    """Read the records of a table with a header in UTF-8, by its names; cells that a line lacks are empty."""
    name = name or (source.name if isinstance(source, Path) else "the table")
    stream = (
        source.open(encoding="utf-8-sig", newline="")
        if isinstance(source, Path)
        else io.StringIO(source, newline="")
    )
    with stream:
        reader = CsvReader(stream, name, delimiter, strict=False)
        header, records = next(reader, []), list[dict[str, str]]()
        for cells in filter(any, reader):
            records.append(dict(zip_longest(header, cells[: len(header)], fillvalue="")))
            check("csv_records", len(records), name)
    return records


def read_csv_table(source: Path | bytes, name: str = "", **options: Any) -> pa.Table:
    """Read a table by Arrow, which finds the types; `options` are those of `pyarrow.csv.read_csv`."""
    name = name or (source.name if isinstance(source, Path) else "the table")
    stream = open_regular(source) if isinstance(source, Path) else io.BytesIO(source)
    with stream:
        check("csv_bytes", stream.seek(0, io.SEEK_END), name)
        stream.seek(0)
        first = stream.readline(most("csv_field") + 1)
        check("csv_field", len(first), name, f"has a first line of {len(first):,} bytes or more")
        check("csv_columns", max(map(first.count, b",;\t")) + 1, name)
        stream.seek(0)
        return arrow_csv.read_csv(stream, **options)


def _text(source: Path | str | bytes, name: str, limit: str) -> str:
    """Return a text of which no more bytes are read than a limit allows."""
    if isinstance(source, Path):
        with open_regular(source) as stream:
            source = stream.read(most(limit) + 1)
    check(limit, len(source), name, f"has {len(source):,} bytes or more")
    return source if isinstance(source, str) else source.decode("utf-8-sig")
