"""Kafka as source and sink, by confluent-kafka: the only folder that imports it."""
