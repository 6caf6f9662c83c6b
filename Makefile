# SPDX-License-Identifier: Apache-2.0
# What one does daily. `make` alone lists it.

PYTHON := .venv/bin/python

.PHONY: help setup build test check prove look

help: ## list these tasks
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## make .venv, and install the tools that the tests need
	bash .ci/setup test

build: ## write the committed packs, and what the documentation takes from the code
	$(PYTHON) -m dashgen build
	$(PYTHON) tests/readme.py

test: ## run the tests: make test T="tests/test_build.py -k tier"
	$(PYTHON) -m pytest $(T)

check: ## style, types, and whether packs and documentation are fresh
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	$(PYTHON) -m dashgen build --check
	$(PYTHON) -m pytest -q tests/test_readme.py tests/test_architecture.py

prove: ## run all rules and panels against the recordings: make prove R=tests/recordings/late-gpu
	$(PYTHON) -m dashgen validate $(if $(R),--recordings $(R))

look: ## draw the boards on a recording into preview.html: make look R=tests/recordings/late-gpu
	$(PYTHON) -m dashgen preview $(if $(R),--recording $(R))
