"""Messages that tell about a job without deciding anything: explanations, exceptions, accumulators."""
