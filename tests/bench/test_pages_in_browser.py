"""Reports and leaderboards in a real browser: on every screen, in the dark, by keyboard, on paper."""

from __future__ import annotations

import json

import pytest

from shiftdata.bench.leaderboard import Submission, leaderboard
from shiftdata.bench.reporting import report
from tests.bench.submissions import fair, part, submitted, written
from tests.bench.synthetic import made_task, synthetic
from tests.browser import accessibility_problems, broken_numbers

HOSTILE = '<img src=x onerror="document.title=1"></style><script>document.title=2</script>'
SCREENS = {"light": [(1280, 900), (3840, 2160)], "dark": [(360, 740)]}


@pytest.fixture(scope="module")
def pages(tiny, tmp_path_factory):
    """A report of several kinds of tables and a board, full of hostile names."""
    folder = tmp_path_factory.mktemp("pages")
    methods = {"erm": (0.9, 0.4), "rwg": (0.85, 0.65), HOSTILE: (0.9, 0.9), "w" * 300: (0.5, 0.5)}
    methods |= {f"method-{number}": (0.5, number / 20) for number in range(12)}
    words = [
        "uda source=kind0 target=kind1",
        "uda source=kind1 target=kind2",
        "uda source=kind2 target=kind0",
    ]
    words += ["group-fairness k=2 mu=0.2", "group-fairness k=4 mu=0.2", "group-fairness k=4 mu=0.5"]
    tasks = {protocol: made_task(protocol) for protocol in words}
    records = synthetic(
        folder / "sweep", tasks=tasks, methods=methods, trials=1, seeds=2, steps=[1], commit=HOSTILE
    )
    asked = json.loads((folder / "sweep" / "sweep.json").read_text()) | {"about": HOSTILE}
    (folder / "sweep" / "sweep.json").write_text(json.dumps(asked))
    (folder / "report.html").write_text(report(records, ["last"]).to_html(), encoding="utf-8")
    task = fair(tiny)
    (folder / "sent").mkdir()
    for name, share in (("low", 0.3), ("high", 0.95), (HOSTILE, 0.6), ("w" * 200, 0.5)):
        sent = submitted(task, [part(task, "test", share)], method=name, code=HOSTILE)
        written(folder / "sent", f"{name[:4].strip('<')}.parquet", sent)
    refused = submitted(task, method=HOSTILE)
    written(folder / "sent", "refused.parquet", Submission(refused.card, refused.rows.slice(1)))
    board = leaderboard(folder / "sent", data=tiny.parent)
    (folder / "board.html").write_text(board.to_html(), encoding="utf-8")
    (folder / "usual").mkdir()
    for name, share in (("erm", 0.3), ("group-dro", 0.95), ("rwg", 0.6)):
        parts = [part(task, "test", share, seed) for seed in range(3)]
        sent = submitted(task, parts, method=name, rule="iid-mean-group")
        written(folder / "usual", f"{name}.parquet", sent)
    usual = leaderboard(folder / "usual", data=tiny.parent)
    (folder / "usual.html").write_text(usual.to_html(), encoding="utf-8")
    return folder


@pytest.fixture
def opened(chromium, pages):
    """Opens a page of a size and a scheme; nothing but the file may be asked for, and nothing complains."""
    said, contexts = [], []

    def open_(name, width=1280, height=900, scheme="light"):
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if name not in request.url else None)
        page.goto((pages / name).as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert [text for text in said if not text.startswith("data:,")] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report.html", "board.html"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_the_page_on_every_screen(opened, name, scheme):
    for width, height in SCREENS[scheme]:
        page = opened(name, width, height, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert broken_numbers(page) == []
        assert page.title() == ("Report on made" if name == "report.html" else "Leaderboard")
        if width < 3000:
            assert accessibility_problems(page) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report.html", "board.html"])
def test_hostile_names_are_texts(opened, name):
    page = opened(name)
    assert page.locator("img, script, main style").count() == 0
    assert page.get_by_text(HOSTILE).count() > 0


@pytest.mark.slow
def test_contents_lead_to_sections_by_keyboard(opened):
    page = opened("report.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert not page.get_by_text("Contents", exact=True).is_visible()
    page.locator(".toc a", has_text="Paired comparisons").focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("heading", name="Paired comparisons").bounding_box()["y"] < 450


@pytest.mark.slow
def test_contents_fold_on_a_phone(opened):
    page = opened("report.html", 360, 800)
    link = page.locator(".toc a", has_text="Paired comparisons")
    assert not link.is_visible()
    page.get_by_text("Contents", exact=True).click()
    link.click()
    assert page.get_by_role("heading", name="Paired comparisons").bounding_box()["y"] < 200


@pytest.mark.slow
def test_a_usual_board_shows_every_column_in_rows_of_two_lines(opened):
    page = opened("usual.html")
    table = page.get_by_role("group", name="tiny, group-fairness")
    assert table.evaluate("region => region.scrollWidth <= region.clientWidth")
    lines = "row => row.getBoundingClientRect().height / parseFloat(getComputedStyle(row).lineHeight)"
    for row in table.locator("tbody tr").all():
        assert row.evaluate(lines) < 3  # a value, its interval, padding
    page.get_by_role("link", name="rwg").click()
    assert page.get_by_text("A. Author", exact=True).filter(visible=True).count() == 1


@pytest.mark.slow
def test_what_is_wider_than_a_phone_shows_it_and_keeps_its_first_column(opened):
    page = opened("usual.html", 360, 800)
    region = page.get_by_role("group", name="tiny, group-fairness")
    assert "gradient" in region.evaluate("region => getComputedStyle(region).backgroundImage")
    name = region.get_by_role("rowheader", name="rwg")
    before = name.bounding_box()["x"]
    region.evaluate("region => region.scrollBy(400, 0)")
    assert name.bounding_box()["x"] == before


#: The contrast of each filled or stroked shape of charts with the page, and the size of each text in pixels.
MARKS = """() => {
  const light = (css) => {
    const [r, g, b] = css.match(/[\\d.]+/g).slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const marks = {}, sizes = [];
  for (const shape of document.querySelectorAll("svg :is(path, use, line, rect)")) {
    const style = getComputedStyle(shape);
    if (shape.closest("clipPath")) continue;
    for (const [colour, alpha] of [[style.fill, style.fillOpacity], [style.stroke, style.strokeOpacity]]) {
      // Bands and heat maps are paler: their numbers are texts. What patterns are made of is a shape too.
      if (colour === "none" || colour.startsWith("url") || alpha * style.opacity < 1) continue;
      marks[colour] = Math.max(light(colour), paper) / Math.min(light(colour), paper);
    }
  }
  for (const text of document.querySelectorAll("svg text")) {
    const svg = text.ownerSVGElement;
    sizes.push(parseFloat(getComputedStyle(text).fontSize) * svg.clientWidth / svg.viewBox.baseVal.width);
  }
  return [marks, Math.min(...sizes)];
}"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_legible(opened, scheme):
    marks, smallest = opened("report.html", 360, 800, scheme).evaluate(MARKS)
    assert len(marks) >= 4
    assert {colour: contrast for colour, contrast in marks.items() if contrast < 3} == {}
    assert smallest >= 11
