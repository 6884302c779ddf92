"""Sources of trained models, a module a kind."""
