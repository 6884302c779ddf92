"""Pages that people look at: datasets, their examples, predictions and results; static, or served live."""

#: The file by which a folder is known as pages of predictions.
RECORD = "page.json"
