"""How anything is fitted: sources of rows, the loop, its schedule, checkpoints and history."""
