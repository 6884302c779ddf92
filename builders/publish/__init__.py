"""Publish a built dataset: to a Hub, object storage or a folder, the manifest last."""
