"""The edge to the device: the only importers of cupy and pynvml."""
