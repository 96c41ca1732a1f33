"""The papers' tables and figures, run by `bochner study`: one or a few modules with a common prefix per family."""
