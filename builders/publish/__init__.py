"""Publish a built dataset: to a Hub, a mirror, object storage or a folder, the manifest last."""
