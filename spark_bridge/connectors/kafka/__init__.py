"""Kafka as a source and as a sink, through confluent-kafka.

Not here: other users of confluent-kafka: only this folder imports it.
"""
