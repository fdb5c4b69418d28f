"""What can be wrong with Setup."""

from __future__ import annotations

from repotrial._core.errors import ContractError, ErrorCode, MachineError

SETUP_FAILED = ErrorCode(
    "setup-failed",
    ContractError,
    "A step of Setup did not succeed.",
    hint="look at what it printed; steps run in the contract's own environment, and reach what their "
    "`network` names and nothing else",
)
SETUP_OUTPUT_MISSING = ErrorCode(
    "setup-output-missing",
    ContractError,
    "Setup ended well, but something that a step declares as its output is not there.",
    hint="declare only what the steps make",
)
SETUP_NETWORK = ErrorCode(
    "setup-network",
    MachineError,
    "A step of Setup wants the network, and nobody here can give it one that keeps to the contract.",
    hint="use a machine that reaches level L3 or L2 (`repotrial doctor` says how); or put what the step "
    'fetches beside the contract as an artifact, and set network = "none"',
)
