"""Pages that people look at: datasets, their examples and predictions; static, or served live."""
