"""What shifts examples: styles, contexts, weather, corruptions, domains, continuous severities.

Every step has a `code_version`. It is part of a recipe's identity: raise it whenever the step gives other
pixels for the same input, so that nobody takes old pictures for new ones. A golden picture of each part
(tests/golden) fails when the pixels change and the version does not.
"""
