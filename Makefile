# Two commands matter: `make run` and `make test`. Everything they need, they install into .venv/.
# `make run EXTRAS=postgres,nats` installs those extras, too.
.PHONY: run test quick check bench docs pictures durability install services format clean

run: ## install what the default configuration needs, and serve on 127.0.0.1:8080
	@./scripts/install run
	@exec ./.venv/bin/sabir serve

test: ## install everything, start what the tests talk to, check, and test
	@./scripts/install test
	@./scripts/services
	@./scripts/peers & ./scripts/test --collect-only --quiet >/dev/null 2>&1 & \
	  ./scripts/check && ./scripts/test; status=$$?; wait; exit $$status # pytest compiles the tests during the checks

quick: ## the tests that need no services, in well under a minute
	@./scripts/install test
	@./scripts/quick

check: ## formatting, lint, types, import contracts, sizes
	@./scripts/install test
	@./scripts/check

bench: ## every benchmark, Sabir beside its peers
	@./scripts/install test
	@./scripts/bench

docs: ## write the generated pages, and build the site that a gateway serves at /docs
	@./scripts/install test
	@./scripts/docs

pictures: ## take the pictures of the README anew, in Chromium and in a terminal
	@./scripts/install test
	@./.venv/bin/python scripts/pictures/take.py

durability: ## kill -9 at random moments, many times
	@./scripts/install test
	@./scripts/services
	@./.venv/bin/python scripts/durability.py --runs 200
	@./.venv/bin/python scripts/cluster_durability.py --runs 100
	@./.venv/bin/python scripts/acl_durability.py --runs 200
	@./.venv/bin/python scripts/acl_durability.py --runs 200 --on cluster

install:
	@./scripts/install test

services:
	@./scripts/services

format:
	@./.venv/bin/ruff format src tests bench examples scripts
	@./.venv/bin/ruff check --fix src tests bench examples scripts

clean:
	rm -rf .venv .venvs .sabir build dist .mypy_cache .ruff_cache .coverage .coverage.*
