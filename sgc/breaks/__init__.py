"""Programs with parts that are not compiled: compiled regions joined by Python (`--mode auto`)."""
