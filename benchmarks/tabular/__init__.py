"""Real tables: automatic kernel models beside trees, forests, networks and other kernel models."""
