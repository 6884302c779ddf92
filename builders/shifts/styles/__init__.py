"""Neural style transfer. scripts/style_pictures draws what the shipped codes were made from."""
