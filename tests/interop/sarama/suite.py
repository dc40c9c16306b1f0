"""sarama: its producers, consumer groups and cluster admin, in a small program of ours."""

from tests.interop.go_programs import client_suite

SUITE = client_suite("sarama", {"sarama": "github.com/IBM/sarama"})
