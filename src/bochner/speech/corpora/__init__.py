"""Corpora -> corpus directories: a manifest with parts disjoint by speaker, a report of what was skipped, a lexicon."""
