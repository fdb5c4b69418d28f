"""Model sources as a command line names them, and prices."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.agents import LoadedAdapter, open_agent
from repotrial.api._machine import MachineSettings
from repotrial.contract import RunSpec
from repotrial.cost import (
    Amount,
    BudgetCaps,
    EnvelopeLimits,
    EnvelopeState,
    Exhausted,
    Hold,
    Ledger,
    ModelPrices,
    Parent,
    RunBudget,
    Spending,
    Tariff,
    load_ledger_state,
    load_price_book,
)
from repotrial.environment import InstallationSettings
from repotrial.gateway import (
    GatewayLoop,
    ProviderConfig,
    ProviderUpstream,
    RecordingUpstream,
    Upstream,
    load_provider,
    load_script,
)
from repotrial.policy import THRESHOLDS_INVALID, parse_thresholds, read_thresholds
from repotrial.redaction import NO_REDACTION
from repotrial.run import CostAccess, ModelAccess, OwnPolicy, UpstreamOrder
from repotrial.wire import Dialect

UPSTREAM_FORMS: Final = ("provider:NAME", "provider:FILE.toml", "script:FILE.toml", "recording:RUN_DIR")

PROVIDERS: Final = {
    "openai": ProviderConfig(
        base_url="https://api.openai.com",
        key_variable="OPENAI_API_KEY",
        dialects=("openai-chat", "openai-responses"),
    ),
    "anthropic": ProviderConfig(
        base_url="https://api.anthropic.com",
        key_variable="ANTHROPIC_API_KEY",
        key_place="x-api-key",
        dialects=("anthropic-messages",),
    ),
    "gemini": ProviderConfig(
        base_url="https://generativelanguage.googleapis.com",
        key_variable="GEMINI_API_KEY",
        key_place="x-goog-api-key",
        dialects=("gemini",),
    ),
}
"""Providers that need no description of their own."""

UNUSED_ORDER: Final = UpstreamOrder(redactor=NO_REDACTION, on_divergence=lambda _: None)

UnknownModels: TypeAlias = Literal["refuse", "abstract-units"]


UPSTREAM_NAME = ErrorCode(
    "upstream-name",
    UsageError,
    "Unknown model source.",
    hint=f"name one of: {', '.join(UPSTREAM_FORMS)}; providers: {', '.join(PROVIDERS)}",
)


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator decides about models."""

    upstream: str | None = None
    """Who answers; see `UPSTREAM_FORMS`. None: agents that ask a model cannot be run."""
    model: str | None = None
    """For agents whose name does not say which; each has its own default."""
    prices: Path | None = None
    """A price book; None: the one that comes with this release."""
    is_abstract: bool = False
    """Whether everything is priced in abstract units instead, budgets included (P21)."""
    unknown_models: UnknownModels | None = None
    """What becomes of models that it does not have; None: refused, but for scripts, which cost nothing."""
    unit_cap: Annotated[int, msgspec.Meta(ge=0)] = 1_000_000
    """Most that a run may cost in abstract units."""
    thresholds: Path | None = None
    """The breakers' thresholds; None: the published ones."""
    task_budget: Decimal | None = None
    """Most that all runs on one contract may cost together, in dollars or abstract units (B4)."""
    total_budget: Decimal | None = None
    """Most that all runs may cost together, in the same unit (B4)."""
    ledger: Path | None = None
    """Where budgets that several runs share are kept; needed by both."""
    is_time_only: bool = False
    """Whether only time draws on those budgets: what a script or a recording answers costs nothing."""


BUDGET_UNITS = ErrorCode(
    "budget-units",
    UsageError,
    "A budget in dollars was set for a model that has no price in dollars.",
    hint="name a price book with --prices that has the model, or leave the budgets out",
)
MODEL_UNPRICED = ErrorCode(
    "model-unpriced",
    UsageError,
    "A provider would be asked for a model that has no price, so every request would be refused.",
    hint="name a model that the price book has (NAME@MODEL or --model), or with --prices a book that has "
    "this one (docs/how-to/price-a-study.md)",
)


def verify_price(choice: ModelChoice, model: str) -> None:
    """Refuse a model whose requests would all be refused: that would count as the agent's failure.

    Raises:
        MODEL_UNPRICED: the model has no price, and nothing else may be charged for it.
    """
    tariff = _build_tariff(choice)
    if not isinstance(tariff.find_prices(model), NotComputable) or tariff.book is None:
        return
    near = difflib.get_close_matches(model, tariff.book.models, n=3)
    hint = f"did you mean {' or '.join(near)}? {MODEL_UNPRICED.hint}" if near else None
    book = "the bundled price book" if choice.prices is None else str(choice.prices)
    raise MODEL_UNPRICED.error(f"{model}: expected a price in {book}, found none", hint=hint)


UPSTREAM_DIALECT = ErrorCode(
    "upstream-dialect",
    UsageError,
    "An agent asks in a wire format that the provider does not speak, so every request would be refused.",
    hint="name a provider that does with --upstream, or describe one in a file (docs/how-to/providers.md)",
)


def verify_dialect(choice: ModelChoice, dialect: Dialect, agent: str) -> None:
    """Refuse an agent whose requests the provider cannot read.

    Raises:
        UPSTREAM_DIALECT: the provider's description says which formats it speaks, and this is none of them.
    """
    kind, _, rest = (choice.upstream or "").partition(":")
    if kind != "provider":
        return
    spoken = _find_provider(rest).dialects
    if spoken and dialect not in spoken:
        raise UPSTREAM_DIALECT.error(
            f"{agent}: expected a wire format of {rest} ({', '.join(spoken)}), found {dialect}"
        )


def verify_budgets(choice: ModelChoice, model: str) -> None:
    """Refuse a budget that could not be held.

    Raises:
        BUDGET_UNITS: the model has no price in dollars.
    """
    if choice.is_abstract or choice.is_time_only:
        return
    if choice.task_budget is None and choice.total_budget is None:
        return
    if not isinstance(_build_tariff(choice).find_prices(model), ModelPrices):
        raise BUDGET_UNITS.error(f"{model}: expected a price in dollars, found none in the price book")


def describe_upstream(name: str, machine: MachineSettings) -> str:
    """The model source as runs record it; never a key.

    Raises:
        UPSTREAM_NAME: the model source is unknown.
        SCRIPT_INVALID: a script is not one.
        RECORDING_UNREADABLE: a recording is not one.
        PROVIDER_UNUSABLE: a provider cannot be asked.
    """
    return _find_upstream(name, machine)(UNUSED_ORDER).description


def _find_upstream(name: str, machine: MachineSettings) -> Callable[[UpstreamOrder], Upstream]:
    kind, separator, rest = name.partition(":")
    if not separator or not rest:
        raise UPSTREAM_NAME.error(f"expected a model source, found {name!r}")
    match kind:
        case "script":
            script = load_script(Path(rest))
            return lambda _: script
        case "recording":
            return lambda order: RecordingUpstream(
                Path(rest), redactor=order.redactor, on_divergence=order.on_divergence
            )
        case "provider":
            config = _find_provider(rest)
            return lambda _: ProviderUpstream(config, machine.variables)
        case _:
            raise UPSTREAM_NAME.error(f"expected a model source, found {name!r}")


def _find_provider(name: str) -> ProviderConfig:
    """A provider by name, or by the file that describes it."""
    if name in PROVIDERS:
        return PROVIDERS[name]
    path = Path(name)
    if path.suffix or path.parent != Path() or path.exists():
        return load_provider(path)
    near = difflib.get_close_matches(name, PROVIDERS, n=1)
    raise UPSTREAM_NAME.error(
        f"expected a provider ({', '.join(PROVIDERS)}) or a file that describes one, found {name!r}",
        hint=f"did you mean provider:{near[0]}?" if near else None,
    )


@contextlib.contextmanager
def open_costs(choice: ModelChoice) -> Iterator[CostAccess]:
    """What prices runs, and the budgets that they share."""
    with _open_ledger(choice) as open_envelopes_of:
        yield CostAccess(
            tariff=_build_tariff(choice),
            unit_cap=str(choice.unit_cap),
            open_envelopes=open_envelopes_of,
        )


@contextlib.contextmanager
def open_model_access(
    choice: ModelChoice,
    machine: MachineSettings,
    *,
    costs: CostAccess | None = None,
    agents: Iterable[LoadedAdapter] = (),
    on_install: Callable[[str], None] | None = None,
) -> Iterator[ModelAccess | None]:
    """What runs need to reach a model; None if no model source was named.

    Args:
        choice: Who answers, and at what price.
        machine: The machine and its operator.
        costs: What prices the runs; opened here if left out.
        agents: Those that will be asked for: installed before any run, and kept until the last is over.
        on_install: Told the name of each that is not there yet, before it is installed.
    """
    if choice.upstream is None:
        # Files that were named are checked also where no run needs them.
        if costs is None:
            _build_tariff(choice)
        if choice.thresholds is not None:
            _load_thresholds(choice.thresholds)
        yield None
        return
    settings = InstallationSettings(
        cache=machine.cache, home=machine.home, variables=machine.variables, secrets=machine.secrets
    )
    with contextlib.ExitStack() as held:
        access = ModelAccess(
            description=describe_upstream(choice.upstream, machine),
            open_upstream=_find_upstream(choice.upstream, machine),
            loop=GatewayLoop.shared(),
            costs=costs or held.enter_context(open_costs(choice)),
            open_agent=lambda adapter: open_agent(adapter, settings),
            thresholds=_load_thresholds(choice.thresholds),
            has_control=not choice.upstream.startswith("recording:"),
            secrets=_find_secrets(choice.upstream, machine),
        )
        # Last: the operator's mistakes show before minutes are spent.
        for adapter in agents:
            held.enter_context(open_agent(adapter, settings, on_install))
        yield access


def read_budgets(choice: ModelChoice) -> tuple[EnvelopeState, ...]:
    """Budgets that runs share, as they stand; none where none were set, or nothing has drawn on them.

    Raises:
        LEDGER_BROKEN: their ledger does not hold.
    """
    if choice.ledger is None or (choice.task_budget is None and choice.total_budget is None):
        return ()
    return load_ledger_state(choice.ledger).envelopes if choice.ledger.is_file() else ()


_OpenEnvelopes: TypeAlias = Callable[[str, RunSpec], contextlib.AbstractContextManager[Parent | None]]


@contextlib.contextmanager
def _open_ledger(choice: ModelChoice) -> Iterator[_OpenEnvelopes]:
    """What each run draws on beside its own caps: shared by all runs, and by the next start as well."""
    if choice.ledger is None or (choice.task_budget is None and choice.total_budget is None):
        yield lambda _run, _spec: contextlib.nullcontext()
        return
    unit: Literal["usd", "units"] = "units" if choice.is_abstract else "usd"
    limits = EnvelopeLimits(task=_amount(choice.task_budget, unit), total=_amount(choice.total_budget, unit))
    choice.ledger.parent.mkdir(parents=True, exist_ok=True)
    with Ledger(choice.ledger) as ledger:
        ledger.conclude_dead()  # a harness that was killed may have left holds
        yield lambda run, spec: _draw_on(
            ledger, limits, run, spec.contract_id, is_time_only=choice.is_time_only
        )


@contextlib.contextmanager
def _draw_on(
    ledger: Ledger, limits: EnvelopeLimits, run: str, task: str, *, is_time_only: bool
) -> Iterator[Parent]:
    try:
        envelopes = ledger.open_envelopes(limits, run=run, task=task)
        yield _TimeOnly(envelopes) if is_time_only else envelopes
    finally:
        # What it still holds is charged in full: whether a provider did so cannot be known any more.
        ledger.conclude_run(run)


class _TimeOnly:
    """Envelopes in dollars that a model's answers in abstract units do not draw on."""

    def __init__(self, envelopes: Parent) -> None:
        self._envelopes = envelopes

    def reserve(self, amount: Amount) -> Hold | Exhausted:
        return self._envelopes.reserve(amount) if amount.unit == "usd" else _Free()


class _Free:
    """A reservation of what costs nothing."""

    def settle(self, actual: Amount) -> None: ...

    def release(self) -> None: ...


def _amount(value: Decimal | None, unit: Literal["usd", "units"]) -> Amount | None:
    return None if value is None else Amount.build(value, unit, methods=("envelope",), basis="bound")


def _load_thresholds(path: Path | None) -> bytes:
    data = read_thresholds(path)
    try:
        parse_thresholds(data)
    except UsageError as error:
        if error.code != THRESHOLDS_INVALID:
            raise
        raise THRESHOLDS_INVALID.error(f"{path}: {error.message}") from error
    return data


def find_own_policy(choice: ModelChoice) -> OwnPolicy:
    """Thresholds and prices that are not the release's own, by their digests; a copy of those is none.

    Raises:
        THRESHOLDS_INVALID: the file of thresholds cannot be read, or is none.
        PRICE_BOOK: the price book cannot be read, or has problems.
    """
    data = None if choice.thresholds is None else _load_thresholds(choice.thresholds)
    tariff = _build_tariff(choice)
    digest = tariff.fallback.digest if tariff.book is None else tariff.book.digest
    return OwnPolicy(
        thresholds=None if data in (None, read_thresholds()) else digest_bytes(data or b""),
        prices=None if digest == load_price_book(None).digest else digest,
        has_time=not Spending(tariff, RunBudget(BudgetCaps()), parent=None).is_idle,
    )


def _find_secrets(name: str, machine: MachineSettings) -> dict[str, str]:
    kind, _, rest = name.partition(":")
    if kind != "provider":
        return {}
    config = _find_provider(rest)
    variable = config.key_variable
    value = "" if variable is None else machine.variables.get(variable, "").strip()
    if config.key_file is not None:  # those that come later are never inside, either
        variable, value = "PROVIDER_KEY_FILE", Path(config.key_file).read_text(encoding="utf-8").strip()
    return {variable: value} if variable is not None and value else {}


def _build_tariff(choice: ModelChoice) -> Tariff:
    is_free = (choice.upstream or "").startswith(("script:", "recording:"))
    return Tariff(
        book=None if choice.is_abstract else load_price_book(choice.prices),
        unknown_models=choice.unknown_models or ("abstract-units" if is_free else "refuse"),
    )
