"""A dataset in WebDataset format: the same examples as tars, for training that reads from front to back.

`writing` is the whole export, `samples` which rows in which order, `tar` their bytes, `card` the README.
`shiftdata.data.loading.tars` reads them.
"""

from shiftdata.data.exporting.webdataset.writing import export as export
