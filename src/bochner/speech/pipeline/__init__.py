"""From a corpus directory to alignments, hypotheses and error rates; each step keeps its result in a directory."""
