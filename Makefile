# What a user does with this tree. Everything starts from nothing: compilers come from the machine or from PyPI.
PYTHON ?= python3
V      := .venv
PY     := $(V)/bin/python
TOOLS   = eval "$$($(PY) python/toolchain.py env)"

.DEFAULT_GOAL := help
.PHONY: help build demo test lint bench models experiment clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The stamp is written last, so that an interrupted set-up is done again.
$(V)/.made: python/toolchain.py pyproject.toml
	@$(PYTHON) python/toolchain.py venv $(V)
	@touch $@

$(V)/.installed: $(V)/.made
	@$(PY) python/toolchain.py install $(V) --no-build-isolation -e '.[test,dev]'
	@touch $@

# Go knows what has changed: nothing to do takes half a second.
build: $(V)/.installed ## bin/ghostd, bin/ghostlab and the Python package in .venv
	@$(PY) python/toolchain.py library
	@$(PY) python/toolchain.py programs

demo: build ## train, export, deploy and compare, in under five minutes; leaves out/demo
	@$(PY) train/demo.py --out out/demo

test: build lint ## everything, as CI runs it
	@$(TOOLS); go test ./...
	@$(PY) -m pytest

lint: $(V)/.installed ## gofmt, go vet, staticcheck, ruff, mypy
	@$(TOOLS); bad=$$(gofmt -l agent env inference models) && { [ -z "$$bad" ] || { echo "gofmt: $$bad" >&2; false; }; }
	@$(TOOLS); go vet ./... && go tool -modfile=tools.mod staticcheck ./...
	@$(PY) -m ruff check python train && $(PY) -m ruff format --check python train && $(PY) -m mypy

bench: build ## speed; leaves out/bench/*.json
	@$(TOOLS); $(PY) train/bench.py --out out/bench

models: build ## train the models that the tree ships
	@$(PY) train/es.py --schema priority --seconds 60 --seed 1 --out models/priority.onnx

experiment: build ## every scheduler on every workload, held out in seed, parameters and kind (about an hour)
	@$(PY) train/demo.py --out out/experiment --full

clean: ## remove what was built, .venv included
	@rm -rf $(V) bin out dist python/ghostgym/*.so
