"""FusedElementwise: nodes that are not matrix products, fused into one kernel (DPIFrame paper, Section IV-D)."""
