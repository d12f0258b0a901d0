"""Device route profiles of the NInfer inference engine: read, layer, look up, store."""
