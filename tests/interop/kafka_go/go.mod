module ottla.example/kafka_go

go 1.23

require github.com/segmentio/kafka-go v0.4.51
