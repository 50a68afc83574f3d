# Two commands do the main jobs, from a fresh machine with Python 3.11 or newer:
#
#   make book     run every notebook, build the HTML book, say which page to open
#   make test     unit tests, doctests, every notebook compared with what it prints, the lab's checks

PYTHON ?= python3
BIN := $(if $(filter Windows_NT,$(OS)),.venv/Scripts,.venv/bin)
PAGE := _build/html/index.html

BOOK := _config.yml _toc.yml requirements.txt pyproject.toml benchmarks/results.json \
	$(sort $(shell find book chapters labkit -name __pycache__ -prune -o -name .ipynb_checkpoints -prune -o -type f -print))

.PHONY: book test serve lab refresh lint browser oracle bench check clean always

book: _build/.made
	@echo "The book is built. Open $(abspath $(PAGE))"

# The list of files is one of the things that the book is made from, so that a deleted file counts as a change.
_build/.files: always
	@mkdir -p _build
	@echo $(BOOK) | cmp -s - $@ || echo $(BOOK) > $@

_build/.made: .venv/.reader _build/.files $(BOOK)
	@echo "Running the notebooks and building the book ..."
	rm -rf _build/.doctrees _build/html _build/jupyter_execute
	$(BIN)/jupyter-book build . -n -W --keep-going
	@touch $@

test: .venv/.reader
	$(BIN)/python -m pytest

serve: book
	@echo "Serving the book at http://localhost:8000 (stop with Ctrl-C)"
	$(BIN)/python -m http.server 8000 --bind localhost --directory _build/html

lab: .venv/.reader
	$(BIN)/jupyter lab chapters

refresh: .venv/.reader
	$(BIN)/python chapters/refresh.py

lint: .venv/.ci
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

browser: .venv/.ci book
	$(BIN)/python -m pytest -m browser tests/browser tests/test_benchmarks.py

oracle: .venv/.ci
	$(BIN)/python -m pytest -m oracle tests/oracle tests/test_benchmarks.py

# All of them take a while: `make bench GROUPS="prefill decode"` runs those named. Leave the machine alone meanwhile.
bench: .venv/.ci book
	$(BIN)/python -m benchmarks $(GROUPS)

# What continuous integration runs. The reader's two commands come first, before anything else is installed.
check: book test lint
	$(BIN)/python -m pytest --cov=labkit --cov-report=term --cov-fail-under=95 tests labkit
	$(BIN)/python chapters/refresh.py --check
	$(MAKE) browser oracle

clean:
	rm -rf .venv _build

.venv/.reader: requirements.txt pyproject.toml
	@echo "Setting up .venv with what the book needs (once; a few minutes) ..."
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed. Name one with make PYTHON=python3.13 ...')"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

.venv/.ci: .venv/.reader requirements-ci.txt
	@echo "Adding what only the full check needs: browsers' driver, PyTorch, transformers ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-ci.txt
	@touch $@
