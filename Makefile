# The one door. `make` lists what there is.
.DEFAULT_GOAL := help
.PHONY: help dev test check bench e2e fuzz setup fmt hooks clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

dev: ## Build and run the service with its embedded database; prints a URL, credentials and a curl
	@cargo build --release --package ringtrue-server
	@exec target/release/ringtrue dev

test: setup ## Everything: format, lints, unit, store, HTTP and third-party client tests, on SQLite and PostgreSQL
	@scripts/test

check: ## Format, lints, documentation; dependencies too where cargo-deny is installed
	@scripts/check

bench: setup ## Compare with others, in one run on this machine; prints ratios
	@scripts/bench

e2e: setup ## Only the tests with third-party clients
	@scripts/e2e

SECONDS ?= 60
fuzz: ## Look for bytes that break a parser, SECONDS=60 for each; the tests do so for a moment
	@scripts/fuzz $(SECONDS)

setup: ## Install what tests and benchmarks need, by package name
	@scripts/setup

fmt: ## Format the code
	@cargo fmt --all

hooks: ## Install a pre-commit hook that checks the format
	@printf '#!/bin/sh\nexec cargo fmt --all --check\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit

clean: ## Remove what was built, and the data of `make dev`
	@cargo clean && rm -rf ringtrue-data e2e/node_modules bench/node_modules
