"""The papers' tables and figures: `bochner study` runs them, one module or a few with a common prefix per family."""
