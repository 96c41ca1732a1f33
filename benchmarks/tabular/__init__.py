"""Real tables: automatic kernel models compared with trees, forests, networks and other kernel models."""
