"""Measure, decide, review and emit the device route profiles of the NInfer inference engine."""
