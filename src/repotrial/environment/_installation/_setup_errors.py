"""What can be wrong with Setup."""

from __future__ import annotations

from repotrial._core.errors import ContractError, MachineError


class SetupFailedError(ContractError):
    """A step of Setup did not succeed."""

    code = "setup-failed"
    default_hint = (
        "look at what it printed; steps run in the contract's own environment, and reach what their "
        "`network` names and nothing else"
    )


class SetupOutputMissingError(ContractError):
    """Setup ended well, but something that a step declares as its output is not there."""

    code = "setup-output-missing"
    default_hint = "declare only what the steps make"


class SetupNetworkError(MachineError):
    """A step of Setup wants the network, and nobody here can give it one that keeps to the contract."""

    code = "setup-network"
    default_hint = (
        "use a machine that reaches level L3 or L2 (`repotrial doctor` says how); or put what the step "
        'fetches beside the contract as an artifact, and set network = "none"'
    )
