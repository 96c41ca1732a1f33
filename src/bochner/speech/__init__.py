"""Speech: audio to token error rate, independent of the kernel packages."""
