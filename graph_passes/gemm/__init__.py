"""FusedGemm: a product with a constant weight, and the operators that follow it, as one kernel."""
