"""Pages that people look at: datasets, their examples, predictions and results; static, or served live."""
