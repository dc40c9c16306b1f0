module ottla.example/scenarios

go 1.26.0
