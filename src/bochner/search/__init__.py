"""Choosing kernel, bandwidth, metric, penalty and solver from data: one assembly for every caller."""
