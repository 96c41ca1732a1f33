"""Nystrom maps against random Fourier features: May 2018, chapter 6."""
