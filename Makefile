# Entry point for development. `make` lists the commands.
.DEFAULT_GOAL := help
.PHONY: help dev release test check bench e2e fuzz docs setup fmt hooks clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

dev: ## Build quickly and run the service with SQLite; prints a sign-in link and the next commands
	@cargo build --profile quick --package ringtrue-server --bin ringtrue
	@exec "$${CARGO_TARGET_DIR:-target}/quick/ringtrue" dev

release: ## Build the optimised binary, a Debian package and a container image in target/shipped
	@scripts/release

test: setup ## Run all tests, on SQLite and PostgreSQL
	@scripts/test

check: setup ## Check format, lints, documentation, client libraries and dependencies
	@scripts/check

bench: setup ## Compare with other implementations on this machine; prints ratios
	@scripts/bench

e2e: setup ## Run only the tests with third-party clients
	@scripts/e2e

SECONDS ?= 60
fuzz: ## Run every fuzz target for SECONDS=60; `make test` runs them briefly
	@scripts/fuzz $(SECONDS)

docs: ## Build the documentation as a static site in target/docs/html; installs mdBook
	@scripts/docs

setup: ## Install the packages that tests and benchmarks need
	@scripts/setup

fmt: ## Format the code
	@cargo fmt --all

hooks: ## Install a pre-commit hook that checks the format
	@printf '#!/bin/sh\nexec cargo fmt --all --check\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit

clean: ## Delete build output and the data of `make dev`
	@cargo clean && rm -rf ringtrue-data e2e/node_modules bench/node_modules
