"""Embedding lookups: the program that describes a fused group of them, its function body, and the pass that finds
them."""
