"""Speed, memory and error as ratios to a peer or to the machine's own ceiling, measured in one run."""
