"""ParallelRegion: fused nodes that can run at the same time, as one node with several streams (paper, Section IV-E)."""
