"""The newest Java clients and Kafka Streams of Maven Central, against Ottla."""
