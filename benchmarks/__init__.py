"""Speed, memory and error relative to a peer or to the machine's ceiling, measured in the same run."""
