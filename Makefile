# The virtual environment is made once; it is renewed when pyproject.toml changes.
PYTHON ?= python3
# What pip installs as torch: another version, or `torch --index-url ...` for another build.
TORCH ?= torch==2.13.0
VENV ?= .venv

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help install demo test check bench

help:
	@echo "make demo    install, fetch the default model, compile a program and run it"
	@echo "make test    install, run all tests"
	@echo "make check   install, run linter, formatter, type checker and import contracts"
	@echo "make bench   install, run all benchmarks; DATA=DIR: on the public evaluation sets there"
	@echo "TORCH=...    what pip installs as torch, for example TORCH='torch==2.13.0'"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/sgc models fetch smollm2-135m
	mkdir -p out
	$(BIN)/sgc compile programs/essay_judge.py -o out/essay_judge.sgc
	$(BIN)/sgc inspect out/essay_judge.sgc
	$(BIN)/sgc run out/essay_judge.sgc --inputs programs/data/essays.jsonl --output out/essays.jsonl
	@echo "The first two results of out/essays.jsonl:"
	@head -n 2 out/essays.jsonl

# Two at a time, each with one thread of products: what two cores hold.
test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

WITH_DATA := $(if $(DATA),--data $(DATA))

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks.engine_cpu $(WITH_DATA)
	$(BIN)/python -m benchmarks.cache_overhead $(WITH_DATA)
	$(BIN)/python -m benchmarks.hit_rate $(WITH_DATA)
	$(BIN)/python -m benchmarks.long_queue
	$(BIN)/python -m benchmarks.executor_overhead
	$(BIN)/python -m benchmarks.weight_forms
	$(BIN)/python -m benchmarks.prefill_profile
	$(BIN)/python -m benchmarks.cold_start
	$(BIN)/python -m benchmarks.engine_overhead
	$(BIN)/python -m benchmarks.process_overhead
	$(BIN)/python -m benchmarks.instances
	$(BIN)/python -m benchmarks.simulator $(WITH_DATA)
	$(BIN)/python -m benchmarks.batch_plan $(WITH_DATA)
	$(BIN)/python -m benchmarks.constrained $(WITH_DATA)
	$(BIN)/python -m benchmarks.json_decode $(WITH_DATA)
	$(BIN)/python -m benchmarks.distortion
