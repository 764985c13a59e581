"""Acoustic features to PCM, in windows of a few fixed sizes."""
