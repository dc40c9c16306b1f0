# `make demo`, `make demo-why` and `make test` need Python 3.11 or newer and PyPI, and nothing else.
SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
WORKERS ?= 4
DEMO ?=
ROUNDS ?= 200
SEEDS ?= 300
CLUSTER_SEEDS ?= 20000
MINUTES ?= 10
PROTOCOL ?= classic
NODES ?=

.DEFAULT_GOAL := help
.PHONY: help lock audit demo demo-why demo-migrate demo-nodes demo-cluster demo-pipeline test test-spark long pipeline-long unit e2e sim chaos chaos-cluster hostile fuzz differential client-on-kafka interop interop-java-churn interop-kgo-848 types lint format bench bench-more image-check compose-check docs dist clean

help: ## show the targets
	@grep -E '^[a-z0-9%-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# An environment that has what the target needs; made again when the dependencies change. The demos take the newest
# versions that fit; tests take the very files that a lock names, and nothing is fetched to build those that are sources.
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
define environment
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer found: install one, or say make PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing what this needs into $(VENV), once: a minute perhaps. Restart a broker that runs from there"
endef
define locked
	$(environment)
	@$(PIP) --require-hashes --requirement locks/build.txt
	@$(PIP) --no-build-isolation --require-hashes --requirement locks/$(1).txt
	@$(PIP) --no-deps --no-build-isolation --editable .
endef

$(VENV)/.demo: pyproject.toml setup.py
	$(environment)
	@$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml setup.py locks/build.txt locks/test.txt
	$(call locked,test)
	@touch $@

$(VENV)/.spark: $(VENV)/.test locks/build.txt locks/spark.txt
	$(call locked,spark)
	@touch $@

$(VENV)/.demo-pipeline: pyproject.toml setup.py
	$(environment)
	@$(PIP) --editable '.[demo,spark]'
	@touch $@

$(VENV)/.tools: $(VENV)/.test locks/tools.txt
	@$(PIP) --require-hashes --requirement locks/tools.txt
	@touch $@

demo: $(VENV)/.demo ## the main job on real input, with a verdict (about a minute)
	@$(BIN)/python -m examples.demo $(DEMO)

demo-why: $(VENV)/.demo ## fifteen incidents of consumer groups, and whether `ottla why` finds the culprits (under two minutes)
	@$(BIN)/python -m examples.incidents $(DEMO)

demo-migrate: $(VENV)/.demo ## a group changes to the protocol consumer while it works, and back, with a verdict (about a minute)
	@$(BIN)/python -m examples.migrate $(DEMO)

demo-nodes: $(VENV)/.demo ## three nodes and five clients; one node is killed, another restarted, with a verdict (under a minute)
	@$(BIN)/python -m examples.nodes $(DEMO)

demo-cluster: $(VENV)/.demo ## three nodes over PostgreSQL; a node is killed, one stands still, the database crashes, its standby takes over (a minute)
	@$(BIN)/python -m examples.cluster $(DEMO)

demo-pipeline: $(VENV)/.demo-pipeline ## groups in trouble, and whether `ottla pipeline` tells it as it was (under three minutes)
	@$(BIN)/python -m examples.pipeline $(DEMO)

test: $(VENV)/.test ## every test but the long suites (three to five minutes)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow and not spark' $(ARGS)

unit: $(VENV)/.test ## the tests without real clients and sockets
	@$(BIN)/python -m pytest -n $(WORKERS) -m 'not slow and not e2e and not spark' $(ARGS)

e2e: $(VENV)/.test ## real clients on real sockets
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m e2e $(ARGS)

test-spark: $(VENV)/.spark ## the data pipeline; needs Java 17 or later (under two minutes)
	@if $(BIN)/python -m ottla.pipeline.session; then $(BIN)/python -m pytest -m 'spark and not slow' tests/pipeline $(ARGS); fi

long: $(VENV)/.test ## the long tests: simulation, crash points, chaos, incidents, real clients (nine minutes)
	@$(BIN)/python -m pytest -n 2 -m 'slow and not spark' $(ARGS)

pipeline-long: $(VENV)/.spark ## its long tests: kills, two hours of forty groups, beside Apache Kafka (about fifteen minutes)
	@if $(BIN)/python -m ottla.pipeline.session; then $(BIN)/python -m pytest -m 'spark and slow' tests/pipeline $(ARGS); fi

sim: $(VENV)/.test ## the long simulation: many seeds, every planted bug (CLUSTER_SEEDS=20000: an hour)
	@OTTLA_CLUSTER_SEEDS=$(CLUSTER_SEEDS) $(BIN)/python -m pytest -m slow tests/sim $(ARGS)

chaos: $(VENV)/.test ## kill a broker under load, and applications besides (ROUNDS=200; about ten minutes); NODES=3: of several nodes one or another (half an hour)
	@$(BIN)/python -m tests.chaos.run load --rounds $(ROUNDS) $(NODES:%=--nodes %) $(ARGS)
	@$(BIN)/python -m tests.chaos.run exactly-once --rounds $$(( ($(ROUNDS) + 1) / 2 )) $(NODES:%=--nodes %) $(ARGS)

chaos-cluster: $(VENV)/.test ## play faults with three nodes over a PostgreSQL with a standby, under load (ROUNDS=200; about 35 minutes)
	@if ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null; \
	then $(BIN)/python -m tests.chaos.postgres.run --rounds $(ROUNDS) $(ARGS); else echo "skipped: there is no PostgreSQL"; fi

hostile: $(VENV)/.test ## attacks from outside, what each costs and what honest groups feel of it (two minutes)
	@$(BIN)/python -m tests.hostile.attacks $(ARGS)

fuzz: MINUTES = 1
fuzz: $(VENV)/.test ## seeded nonsense over all APIs and versions, against brokers of their own (MINUTES=1)
	@$(BIN)/python -m tests.hostile.fuzz --minutes $(MINUTES) $(ARGS)

differential: $(VENV)/.test ## hold Ottla against a real Apache Kafka; SEEDS=300; needs Java 17 and, the first time, Maven
	@if command -v java >/dev/null && { command -v mvn >/dev/null || ls $${OTTLA_DIFFERENTIAL_CACHE:-$$HOME/.cache/ottla-differential}/jars-* >/dev/null 2>&1; }; \
	then $(BIN)/python -m tests.differential.group_functions --seeds $(SEEDS) && $(BIN)/python -m tests.differential.run --seeds $(SEEDS) $(ARGS) \
	&& $(BIN)/python -m tests.differential.run --nodes 3 --random --seeds $$(( $(SEEDS) / 10 )) && $(BIN)/python -m tests.differential.wrong_nodes; else echo "skipped: no Java 17 with Maven"; fi

client-on-kafka: $(VENV)/.test ## the included client against a real Apache Kafka; needs what differential needs (three minutes)
	@$(BIN)/python -m pytest tests/clients/test_on_kafka.py tests/clients/test_kafka_transactions.py $(ARGS)

interop: $(VENV)/.test ## every foreign client, tool and test-suite there is a toolchain for; of long ones a sample (about twenty minutes)
	@$(BIN)/python -m tests.interop.run all $(ARGS)

interop-java-churn: $(VENV)/.test ## Java clients come, go and crash for MINUTES=10; their warnings beside those with Apache Kafka; PROTOCOL=consumer
	@$(BIN)/python -m tests.interop.java.churn --minutes $(MINUTES) --protocol $(PROTOCOL) $(ARGS)

interop-kgo-848: $(VENV)/.test ## the eight tests that franz-go has of groups of the consumer protocol (KIP-848)
	@$(BIN)/python -m tests.interop.run kgo --option run=kip-848 $(ARGS)

interop-%: $(VENV)/.test ## one of them: make interop-franz-go
	@$(BIN)/python -m tests.interop.run $* $(ARGS)

types: $(VENV)/.spark ## mypy --strict
	@$(BIN)/python -m mypy -p ottla.protocol -p ottla.broker -p ottla.clients -p ottla.observe -p ottla.workbench -p ottla.testing -p ottla.cli -p ottla.pipeline
	@$(BIN)/python -m mypy examples tests/image
	@MYPYPATH=.types:bench $(BIN)/python -m mypy bench

lint: $(VENV)/.test ## ruff
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

format: $(VENV)/.test ## let ruff mend what it can
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: $(VENV)/.test ## what the goals for speed are judged by, beside Apache Kafka, kfake and librdkafka's mock (long: one of its loads takes ten minutes)
	@$(BIN)/python bench/acceptance.py $(ARGS)

bench-more: $(VENV)/.test ## what a large log, the recorder and an open console cost (about ten minutes)
	@$(BIN)/python bench/big_log.py
	@$(BIN)/python bench/recorder.py
	@$(BIN)/python bench/console.py

image-check: $(VENV)/.tools ## read the container files for mistakes: hadolint, and the schema of compose files
	@$(BIN)/hadolint Dockerfile Dockerfile.pipeline && $(BIN)/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml

compose-check: $(VENV)/.tools ## build the images and live with compose.yaml, by Docker or, as root, Podman (four minutes; the first time more)
	@$(BIN)/python -m tests.image.check $(ARGS)

docs: $(VENV)/.test ## print anew what pages of docs/ have from the code
	@$(BIN)/python docs/make_protocol_support.py && $(BIN)/python docs/make_settings.py && $(BIN)/python docs/make_permissions.py && $(BIN)/python docs/make_client.py && $(BIN)/python docs/make_recorder_events.py && $(BIN)/python docs/make_pipeline_tables.py && $(BIN)/python docs/make_failures.py

lock: ## pin what pyproject.toml asks for anew, with hashes, in locks/
	@test -x build/lock/bin/uv || { $(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv; }
	@PATH="$(abspath build/lock/bin):$$PATH" build/lock/bin/python locks/make.py

audit: $(VENV)/.tools ## compare what is locked with published advisories; says so where they cannot be reached
	@$(BIN)/python locks/audit.py

dist: $(VENV)/.test ## wheel and source distribution
	@$(BIN)/python -m build --outdir dist .

clean: ## remove what the targets made
	rm -rf $(VENV) build dist .demo bench/.build *.egg-info .pytest_cache .mypy_cache .ruff_cache
