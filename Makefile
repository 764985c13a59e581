# Two commands do all set-up on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint bench env clean

run: env            ## the service, on port 8000
	$(BIN)/serve run config.yaml

test: env           ## everything: style, types, tests
	$(MAKE) lint
	$(BIN)/python -m pytest tests

lint: env
	$(BIN)/ruff check serve_app deployments tests benchmarks
	$(BIN)/mypy

bench: env          ## the figures of the README
	$(BIN)/python -m benchmarks.speed

env: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build *.egg-info out
