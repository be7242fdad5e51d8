"""What user code calls: pipelines that can run themselves, and operations in any code."""
