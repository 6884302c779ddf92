"""What shifts examples: styles, contexts, weather, corruptions, domains, continuous severities."""
