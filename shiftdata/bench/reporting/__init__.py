"""Reports on records: tables like the papers', comparisons, ranks, failures, versions.

`report(records, rules=[..])` gives a `Report`: text, Markdown, CSV, or one HTML page.
"""

from shiftdata.bench.reporting.making import Report as Report
from shiftdata.bench.reporting.making import report as report
