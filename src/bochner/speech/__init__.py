"""Speech: audio to token error rate. This column knows no kernels."""
