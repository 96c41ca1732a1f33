"""What is fitted on features: linear heads, networks, selection, solvers."""
