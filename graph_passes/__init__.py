"""The passes that rewrite a model's graph, and the pipeline that orders them."""
