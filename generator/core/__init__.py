"""The pure part: no GPU package, no clock, no environment, no printing."""
