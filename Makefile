# Works on a fresh checkout with Python 3.11+ alone: the first target that needs it makes .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install test lint demo pretrain-demo bench clean
install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Watchword needs Python 3.11 or newer; say `make PYTHON=python3.12 ...`") if sys.version_info < (3, 11) else 0'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e '.[test]' -c constraints.txt
	touch $@

test: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --durations=15

lint: install
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

demo: install
	$(BIN)/watchword demo

pretrain-demo: install
	$(BIN)/watchword pretrain-demo

bench: install
	$(BIN)/python -m pip install -q -e '.[bench]' -c constraints.txt
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo-output pretrain-demo-output .pytest_cache .mypy_cache .ruff_cache
