"""Utterances to acoustic features."""
