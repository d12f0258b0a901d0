"""NumPy references of number formats and operations: the definition that kernels are checked against."""
