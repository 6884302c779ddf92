"""The first state of the view: a map, charts of what a dataset of shifts is asked about, a table or cards."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from shiftdata.serve.explore.rows import NEAR, ROW, X, Y
from shiftdata.serve.pages.rows import Rows

#: A picture on a card, with what is known of its row; names are strangers' texts.
CARD = """\
<div style="display:flex;gap:10px;padding:10px">
<div style="flex:none">PICTURE</div>
<div style="min-width:0;overflow-wrap:anywhere;font-size:13px;line-height:1.4">LINES</div></div>"""


def view_of(
    rows: Rows,
    table: pa.Table,
    version: str,
    *,
    points: bool = True,
    counts: bool = True,
    pictures: bool = True,
) -> dict[str, Any]:
    """Return the properties of the component: columns by their meaning, and the charts that are open first.

    `points` draws the map row by row, for which a browser needs WebGPU; `counts` draws how many rows lie
    where. `pictures` have addresses; else the table has a column of them.
    """
    names = table.column_names
    runs = [
        name.removesuffix(" is")
        for name in names
        if name.endswith(" is") and name.removesuffix(" is") in names
    ]
    data: dict[str, Any] = {"table": "dataset", "id": ROW}
    if X in names:
        data["projection"] = {"x": X, "y": Y}
    if "text" in names:
        data["text"] = "text"
    if NEAR in names:
        data["neighbors"] = NEAR
    charts = _charts(rows, table, runs, points=points, counts=counts, pictures=pictures)
    styles: dict[str, Any] = {name: {"display": "badge"} for name in names}
    if rows.has_pictures:
        if pictures:
            template = '<img src="picture/{{ value }}" style="max-width:96px" alt="">'
            styles[ROW] = {
                "display": "full",
                "renderer": "liquid-template",
                "options": {"template": template},
            }
        else:
            styles["picture"] = {"display": "full", "renderer": "image", "options": {"size": 96}}
    state = {
        "version": version,
        "charts": charts,
        "layouts": {"1": {"type": "list", "name": "Rows", "chartIds": list(charts)}},
        "layoutOrder": ["1"],
        "currentLayout": "1",
        "columnStyles": styles,
    }
    return {"data": data, "initialState": state, "embeddingViewLabels": []}


def _charts(
    rows: Rows, table: pa.Table, runs: list[str], *, points: bool, counts: bool, pictures: bool
) -> dict[str, Any]:
    names, nuisance = table.column_names, rows.metadata.nuisance_column
    charts: dict[str, Any] = {}
    if X in names and points:
        data = {"x": X, "y": Y, "category": f"{runs[0]} is" if runs else nuisance}
        data |= {"text": "text"} if "text" in names else {}
        data |= {"neighbors": NEAR} if NEAR in names else {}
        charts["map"] = {"type": "embedding", "title": "Map of features", "data": data}
    if X in names and counts:
        charts["places"] = _places()
    for run in runs:
        charts[f"right-{run}"] = _bars(f"{run}: right or wrong", f"{run} is")
        charts[f"groups-{run}"] = _accuracy(run, nuisance)
    for name in [
        nuisance,
        "label",
        "split",
        "license",
        *(column for column in names if column.startswith("set of ")),
    ]:
        if name in names and _several(table[name]):
            charts[f"count-{name}"] = _bars(name, name)
    if "severity" in names:
        charts["severity"] = _bars("severity", "severity", order="alphabetical")
    if not runs:
        charts["groups"] = _heat(f"rows by label and {nuisance}", nuisance, {"aggregate": "count"})
    charts["sql"] = {"type": "predicates", "title": "Conditions in SQL"}
    shown = [name for name in names if name not in (ROW, "quantile") and not name.startswith("__")]
    rowwise: dict[str, Any] = {"type": "instances", "title": "Rows", "columns": shown, "pageSize": 60}
    if rows.has_pictures and not pictures:
        rowwise |= {"viewMode": "cards", "columns": ["picture", *shown]}
    elif rows.has_pictures:
        lines = (
            [f"<b>{{{{ label | escape }}}}</b> / {{{{ {nuisance} | escape }}}}"] if _plain(nuisance) else []
        )
        facts = [name for name in ("split", "severity", "license") if name in names]
        lines.append(" · ".join(f"{{{{ {name} | escape }}}}" for name in facts))
        lines += [f"{run}: {{{{ {run} | escape }}}}" for run in runs if _plain(run)]
        picture = (
            '<img src="picture/{{ row }}" alt="" style="max-width:96px;max-height:96px;border-radius:4px">'
        )
        card = CARD.replace("PICTURE", picture).replace("LINES", "<br>".join(lines))
        rowwise |= {"viewMode": "cards", "cardTemplate": card, "columns": [ROW, *shown]}
    charts["rows"] = rowwise
    return charts


def _plain(name: str) -> bool:
    """Return True for a name that a template can say as it is."""
    return name.isidentifier()


def _several(column: pa.ChunkedArray) -> bool:
    return len(column.unique()) > 1


def _bars(title: str, field: str, order: str = "total-descending") -> dict[str, Any]:
    return {"type": "count-plot", "title": title, "data": {"field": field}, "limit": 12, "order": order}


def _accuracy(run: str, nuisance: str) -> dict[str, Any]:
    """Return a heat map of the share of each group that a run gets right."""
    right = {"sql": f"""CASE "{run.replace('"', '""')} is" WHEN 'right' THEN 1.0 WHEN 'wrong' THEN 0.0 END"""}
    return _heat(f"{run}: share of each group that is right", nuisance, {"aggregate": "mean", "field": right})


def _places() -> dict[str, Any]:
    """Return the map as counts of rows in squares, which any browser draws; a brush selects."""
    bins = {"bin": {"desiredCount": 60}}
    encoding = {"x": {"field": X, **bins}, "y": {"field": Y, **bins}, "color": {"aggregate": "count"}}
    return {
        "title": "Map of features: rows in each square",
        "layers": [{"mark": "rect", "filter": "$filter", "encoding": encoding}],
        "selection": {"brush": {"encoding": "xy"}},
        "axis": {"x": {"title": ""}, "y": {"title": ""}},
    }


def _heat(title: str, nuisance: str, colour: dict[str, Any]) -> dict[str, Any]:
    encoding = {"x": {"field": nuisance}, "y": {"field": "label"}, "color": colour}
    return {
        "title": title,
        "layers": [{"mark": "rect", "filter": "$filter", "encoding": encoding}],
        "selection": {"brush": {"encoding": "xy"}},
    }
