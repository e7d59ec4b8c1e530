# make lab            a private Python environment, then JupyterLab on lesson 00 (lang=zh: the Chinese page and menus)
# make test           what a change has to pass: of every large set the cases in which any two values meet
# make test-all       all cases of those sets, every lesson, every planted answer (LAB_EXHAUSTIVE=2: in both languages, at every width; hours)
# make build          the notebooks from their sources
# make site           the course as static pages in build/site, both languages, no kernel, no third party (once 90 MB)
# make cuda-rules     what CUDA's kernels keep, recorded anew without a GPU, and the estimator held to it (once 4.7 GB)
# make exports        what Megatron-LM's and torchtitan's own parsers make of our exports, recorded anew (once 1.5 GB)
# All of it stays in this folder: .venv (libraries) and .cache (JupyterLab's settings).

lang ?= en
ifeq ($(filter $(lang),en zh),)
  $(error lang must be en or zh, not "$(lang)")
endif

export LAB_LANG := $(lang)
export DS_BUILD_OPS := 0
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
JUPYTER := .cache/jupyterlab-$(lang)
SITE := .cache/site
NOTEBOOKS := $(wildcard lessons/$(lang)/*.ipynb labs/$(lang)/*.ipynb)
LOCALE := $(if $(filter zh,$(lang)),zh_CN,default)

.PHONY: lab build test test-all site cuda-rules exports
.DEFAULT_GOAL := lab

# Trusted notebooks show their saved pictures and folded answers at once, before anything is run.
lab: .venv/installed $(JUPYTER)/overrides.json
	@$(if $(NOTEBOOKS),$(BIN)/jupyter trust $(NOTEBOOKS) >/dev/null)
	@exec $(BIN)/jupyter lab $$([ "$$(id -u)" = 0 ] && echo --allow-root) --LabApp.app_settings_dir=$(JUPYTER) \
	  --LabApp.workspaces_dir=$(JUPYTER)/workspaces --LabApp.default_url=/lab/tree/lessons/$(lang)/00_start.ipynb \
	  --ServerApp.root_dir=. --ServerApp.ip=127.0.0.1 --ServerApp.answer_yes=True --Application.log_level=WARN

build: .venv/installed-test
	$(BIN)/python -m lab_utils build

test: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/python -m lab_utils build --check
	$(BIN)/python tests/lanes.py

test-all: export LAB_EXHAUSTIVE := 1
test-all: $(SITE)/installed test

# An environment without torch: what the pages show was run when the notebooks were built.
site: $(SITE)/installed
	PYTHONPATH=. $(SITE)/bin/python -m lab_utils site --out build/site

$(SITE)/installed: requirements-site.txt | .venv/made
	@rm -rf $(SITE)
	$(BIN)/python -m venv $(SITE)
	$(SITE)/bin/python -m pip install --disable-pip-version-check -r requirements-site.txt
	@touch $@

# `make test` holds the estimator to the committed record; this writes the record anew. The three = ask for the build with
# CUDA, which pip would leave for the CPU's; nothing of it ends in .venv.
CUDA_RULES := .cache/cuda-rules

cuda-rules: .venv/installed-test $(CUDA_RULES)/installed
	PYTHONPATH=. $(CUDA_RULES)/bin/python tests/measured/cuda_saved_bytes.py
	$(BIN)/python -m pytest tests/estimate/test_cuda_kernels.py

$(CUDA_RULES)/installed: requirements.txt
	@rm -rf $(CUDA_RULES)
	$(BIN)/python -m venv $(CUDA_RULES)
	$(CUDA_RULES)/bin/python -m pip install --disable-pip-version-check \
	  'torch===$(shell sed -n 's/^torch==//p' requirements.txt)' $$(grep -E '^(numpy|cloudpickle|psutil|tqdm)==' requirements.txt)
	@touch $@

# An environment that looks into .venv for torch and adds what two frameworks want besides. Megatron-LM's parser is in no
# package: MEGATRON_LM=a-checkout-of-it has it asked, too; otherwise what was recorded of it stays.
EXPORTS := .cache/exports

exports: .venv/installed-test $(EXPORTS)/installed
	PYTHONPATH=. $(EXPORTS)/bin/python tests/measured/exports.py
	$(BIN)/python -m pytest tests/exports

$(EXPORTS)/installed: .venv/installed-test
	@rm -rf $(EXPORTS)
	$(BIN)/python -m venv $(EXPORTS)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$(echo $(EXPORTS)/lib/python*/site-packages)/lab.pth
	$(EXPORTS)/bin/python -m pip install --disable-pip-version-check torchtitan==0.3.0 megatron-core==0.16.1 triton
	@touch $@

.venv/installed: requirements.txt pyproject.toml | .venv/made
	$(PIP) install -r requirements.txt
	$(PIP) install --no-deps --editable .
	@touch $@

.venv/installed-test: requirements-test.txt .venv/installed
	$(PIP) install -r requirements-test.txt
	@touch $@

# The first Python that is new enough makes the environment; a half-made one is removed.
.venv/made:
	@for python in python3.11 python3.12 python3.13 python3; do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  echo "Making .venv with $$($$python --version) (once; the libraries that follow take a few minutes)"; \
	  $$python -m venv .venv && $(BIN)/python -m pip --version >/dev/null && touch $@ && exit 0; \
	  rm -rf .venv; \
	  echo "$$python cannot make a virtual environment with pip. On Debian or Ubuntu: apt-get install $$python-venv" >&2; exit 1; \
	done; \
	echo "This course needs Python 3.11 or newer, and found $$(python3 --version 2>/dev/null || echo none). Install it, then run make again." >&2; exit 1

$(JUPYTER)/overrides.json: Makefile
	@mkdir -p $(@D)
	@printf '%s\n' '{"@jupyterlab/translation-extension:plugin": {"locale": "$(LOCALE)"},' \
	  '"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}' > $@
