"""May's tables of acoustic models, kernels against networks, on synthetic stand-ins for the licensed corpora."""
