"""Damaged and hostile files for every reader: each ends in a read or in an error that names the file.

`pytest tests/fuzz` tries 60 files per reader, `python -m tests.fuzz --count 10000` any number.
"""
