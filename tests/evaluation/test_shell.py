"""What a page makes of a stranger's Markdown."""

from __future__ import annotations

from shiftdata.evaluation.pages.shell import markdown

CARD = """
<details><summary>3 more & <b>bold</b></summary>

| a |
|---|
| 1 |

</details>

</details>

- <details><summary>in a list</summary>

<details open onclick="x()"><summary>with attributes</summary>

<details><summary>never ended</summary>
"""


def test_a_card_folds_its_parts_and_has_no_other_html():
    page = str(markdown(CARD, "files/"))
    assert page.startswith("<details><summary>3 more &amp; &lt;b&gt;bold&lt;/b&gt;</summary>\n")
    assert page.index("<td>1</td>") < page.index("</details>")
    assert (page.count("<details"), page.count("</details>")) == (1, 1)
