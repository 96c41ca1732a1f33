# Two commands: `make demo` and `make test`. Each makes its own virtual environment on first use.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Compiled files make the tests and the processes that they start faster, also where this is set.
unexport PYTHONDONTWRITEBYTECODE
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test lint docs coverage test-gpu test-matrix bench clean

help:
	@echo "make demo         kernel methods beside others on tables, factors and speech: report in out/demo"
	@echo "make test         everything CI runs: lint, types, import rules, tests, docs"
	@echo "make coverage     lines and branches that the tests run, by file"
	@echo "make test-gpu     tests that need a CUDA device"
	@echo "make test-matrix  the tests as on other CPUs, Pythons, locales and under load: a table, an hour or more"
	@echo "make bench        speed and memory as ratios to scikit-learn and to the machine's own ceiling"
	@echo "make docs         the documentation, into site/"

demo: $(VENV)/.demo
	$(BIN)/bochner demo

test: lint
	$(BIN)/python -m pytest -n auto --dist loadfile
	$(MAKE) --no-print-directory docs

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Child processes are counted, unless they are killed. The data also tell which test runs which line, for tests.mutants.
coverage: $(VENV)/.test
	mkdir -p out/coverage
	$(BIN)/python -m pytest -n auto --dist loadfile --cov --cov-context=test $(TESTS)

test-gpu: $(VENV)/.test
	$(BIN)/python -m pytest -m gpu

# A selection: make test-matrix TESTS="tests/solvers tests/kernels"
test-matrix: $(VENV)/.test
	$(BIN)/python -m tests.matrix $(TESTS)

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.maps
	$(BIN)/python -m benchmarks.learning
	$(BIN)/python -m benchmarks.suite

clean:
	rm -rf $(VENV) site out

# torch first: with it in place the other requirements bring no second one.
$(VENV)/.torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	@touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	$(PIP) -e '.[bench]'
	@touch $@

$(VENV)/.test: $(VENV)/.torch pyproject.toml
	$(PIP) -e '.[test]'
	@touch $@ $(VENV)/.demo
