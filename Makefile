# One verb a line; `make` alone prints them. Needs Python 3.11 or newer, and nothing else: Node comes with the environment.

CONFIG ?= config/default.yaml
PYTHON ?= python3
KUBERNETES ?= 1.35
STATUS_WAIT ?= 900
STACKS ?= --all
QUOTED = '$(subst ','\'',$(CONFIG))'

# The second key of docs/deletion.md.
KEYS := $(if $(filter 1 true True TRUE yes,$(ALLOW_DESTROY)),--context kascade:allow-destroy=true)

# The faults of a disk are made by mounts, which take root or a user namespace of one's own.
MOUNTING := $(if $(filter 0,$(shell id -u)),,unshare --map-root-user --mount)

# The package's own folders are listed for their doctests.
PURE := $(addprefix constructs/kascade/,catalog config plan rules sizing planning programs units.py errors.py) \
  tests/layout $(addprefix tests/unit/,catalog config sizing programs)

BIN := .venv/bin
RUN := $(BIN)/python
CDK := tools/cdk/node_modules/aws-cdk/bin/cdk

export PATH := $(CURDIR)/$(BIN):$(PATH)
export JSII_NODE := $(CURDIR)/$(BIN)/node
export CDK_DISABLE_CLI_TELEMETRY := true
export CDK_DISABLE_VERSION_CHECK := 1
export KUBERNETES
unexport CDK_OUTDIR VIRTUAL_ENV PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help plan preflight synth diff deploy status destroy quick test tests contract rehearse rehearse-kyverno e2e e2e-long janitor-soak demo lint types layers format schema snapshots keep-release floor wheel \
  controlplane engine-env bench-env pins clean

help: ## print the verbs
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
	@echo "  CONFIG=config/NAME.yaml chooses the deployment of plan, preflight, synth, diff, deploy, status, destroy and demo (default: $(CONFIG))"
	@echo "  ARGS=\"--require-approval never\" goes to the CDK's command line, for diff, deploy and destroy (there --force) where nobody can answer;"
	@echo "  STACKS=\"NAME-serving --exclusively\" deploys or destroys some stacks alone"
	@echo "  PREFLIGHT=0 leaves out of deploy what looks at the account first; STATUS_WAIT=0 what waits for nodes and engines last"
	@echo "  ALLOW_DESTROY=1 lets log groups and buckets go with their stacks where CONFIG says on_delete: destroy"
	@echo "  KUBERNETES=1.34 or 1.36 chooses the server of rehearse and controlplane (default: $(KUBERNETES));"
	@echo "  REHEARSAL_KUBECONFIG=PATH offers rehearse an empty cluster instead of one of its own"

plan: .venv/run ## print every number that follows from CONFIG, with its reason
	@$(RUN) -m kascade.cli plan -- $(QUOTED)

preflight: .venv/run ## look whether the AWS account in use can take CONFIG; changes nothing (docs/preflight.md)
	@$(RUN) -m kascade.cli preflight -- $(QUOTED)

synth: .venv/run $(CDK) ## plan, CloudFormation templates and Kubernetes manifests of CONFIG
	@$(RUN) -m kascade.cli plan -- $(QUOTED)
	@$(BIN)/node $(CDK) synth --quiet --context config=$(QUOTED) $(KEYS)
	@$(RUN) -m tools.closing $(QUOTED)

diff: .venv/run $(CDK) ## what CONFIG would change in the AWS account in use
	@$(BIN)/node $(CDK) diff --context config=$(QUOTED) $(KEYS) $(ARGS)

deploy: .venv/run $(CDK) ## deploy CONFIG to the AWS account in use, and write down beside it what is fixed from then on
	@$(if $(filter 0,$(PREFLIGHT)),,$(RUN) -m kascade.cli preflight -- $(QUOTED))
	@$(RUN) -m tools.deploying deploy $(QUOTED) $(BIN)/node $(CDK) deploy $(STACKS) --import-existing-resources --context config=$(QUOTED) $(KEYS) $(ARGS)
	@$(RUN) -m kascade.cli status --wait $(STATUS_WAIT) -- $(QUOTED)

status: .venv/run ## what runs of CONFIG beside its plan, and why the rest does not
	@$(RUN) -m kascade.cli status -- $(QUOTED)

destroy: .venv/run $(CDK) ## delete what CONFIG made, after a question; ALLOW_DESTROY=1 as at its last deployment (docs/deletion.md)
	@$(RUN) -m tools.deploying destroy $(QUOTED) $(BIN)/node $(CDK) destroy $(STACKS) --context config=$(QUOTED) $(KEYS) $(ARGS)

quick: lint layers types ## style, layers, types and what needs no CDK: a minute
	@$(RUN) -m pytest $(PURE) --numprocesses=auto $(ARGS)

test: lint types layers tests ## all that needs the main environment alone: unit, snapshots, strict synths of three configurations

tests: .venv/dev $(CDK) ## the tests of `test` alone; ARGS="-k cache" chooses among them
	@$(RUN) -m pytest --few --numprocesses=auto -m "not promtool" $(ARGS)

contract: .venv/dev $(CDK) ## every configuration, and the parsers of vLLM, LMCache, the router, promtool; downloads them, once
	@$(PYTHON) -m tools.engine_env
	@$(PYTHON) -m tools.bench_env
	@PATH="$$($(PYTHON) -m tools.prometheus):$$PATH" && $(RUN) -m pytest --numprocesses=auto -m "contract or promtool" $(ARGS)

rehearse: .venv/dev $(CDK) ## deploy, change and destroy on a real Kubernetes API and an emulated AWS; needs Go, once
	@$(RUN) -m pytest tests/rehearsal --numprocesses=$(if $(REHEARSAL_KUBECONFIG),0,2) --dist=loadscope --no-loadscope-reorder -m "not kyverno" $(ARGS)

rehearse-kyverno: .venv/dev $(CDK) ## what Kyverno's own engine makes of the policy of mode operator; builds it from source, once
	@$(RUN) -m pytest tests/rehearsal -m kyverno $(ARGS)

e2e: .venv/dev ## two real engines with their caches, the router and Prometheus, from the rendered manifests; and what breaks them
	@$(MOUNTING) $(RUN) -m pytest tests/e2e -m "not long" $(ARGS)

e2e-long: .venv/dev ## the same system again, for what mostly waits: an idle night, a roll-out under load, the faults that `kascade verify` has to name, a hung disk, a frozen engine
	@$(MOUNTING) $(RUN) -m pytest tests/e2e -m long $(ARGS)

janitor-soak: .venv/dev ## ten minutes of the janitor beside writers, 100,000 files; ARGS="--minutes 60" for longer
	@$(RUN) -m tools.janitor_soak $(ARGS)

demo: .venv/dev ## the system of e2e, kept up for a look: its URL and a live table of tokens per tier (config/laptop.yaml unless CONFIG is given)
	@$(RUN) -m tools.local.demo $(if $(filter file,$(origin CONFIG)),config/laptop.yaml,$(QUOTED))

lint: .venv/dev ## style and common errors
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: .venv/dev ## rewrite the code in the one style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: .venv/dev ## mypy, strict
	@$(BIN)/mypy

layers: .venv/dev ## who may import whom
	@$(BIN)/lint-imports

schema: .venv/run ## regenerate config/schema.json and config/reference.yaml from the models
	@$(RUN) -m kascade.config.generate

snapshots: .venv/dev ## accept today's templates, manifests and plans as the reviewed ones
	@$(RUN) -m pytest -m snapshot --snapshot-update

keep-release: .venv/run ## keep what this version renders, for the upgrades that are rehearsed
	@$(RUN) -m tools.keep_release

floor: .venv/run $(CDK) ## what a synth and a plan cost, against a bare CDK app and bare imports
	@$(RUN) -m tools.synth_floor --config $(QUOTED)

wheel: .venv/run ## the library as dist/*.whl
	@$(RUN) -m pip wheel --quiet --no-deps --wheel-dir dist . && ls dist/*.whl

controlplane: .venv/run ## the Kubernetes control plane of the rehearsal, built from source into ~/.cache/kascade; where it is
	@$(RUN) -m tools.controlplane.build --kubernetes='$(subst ','\'',$(KUBERNETES))'

engine-env: ## vLLM's and LMCache's parsers, in ~/.cache/kascade
	@$(PYTHON) -m tools.engine_env

bench-env: ## the load generator of `kascade bench`, in ~/.cache/kascade
	@$(PYTHON) -m tools.bench_env

pins: ## resolve requirements*.txt and the router image anew from pyproject.toml
	@$(PYTHON) tools/pins.py

clean: ## remove what synth, test and wheel left; environments stay
	@rm -rf dist cdk.out .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis .coverage
	@find app.py constructs stacks k8s tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment, filled in two steps. A step runs again when its pins, the packaging or the machine's Python change.

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Kascade needs Python 3.11 or newer, this is %s" % sys.version.split()[0])'
	@$(PYTHON) -m venv .venv

.venv/run: requirements.txt pyproject.toml tools/environment.py | .venv/bin/python
	@$(RUN) tools/environment.py requirements.txt
	@touch $@

.venv/dev: requirements-dev.txt .venv/run
	@$(RUN) tools/environment.py requirements-dev.txt
	@touch $@

$(CDK): tools/cdk/package-lock.json .venv/run
	@$(BIN)/npm ci --prefix tools/cdk --loglevel=error --no-audit --no-fund --ignore-scripts
	@touch $@
