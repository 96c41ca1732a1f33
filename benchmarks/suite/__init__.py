"""Everything that takes time, beside plain torch, the machine's ceilings and the peers that are installed."""
