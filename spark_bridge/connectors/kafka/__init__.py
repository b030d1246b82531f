"""Kafka as a source and as a sink, with confluent-kafka.

Not here: other code that uses confluent-kafka. Only this folder imports it.
"""
