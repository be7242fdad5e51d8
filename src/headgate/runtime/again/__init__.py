"""What was published, made again beside everything, and compared with what readers see."""
