"""Making contracts: lock them, scaffold them, draft them from merged changes."""

from repotrial.authoring._codes import DRAFT_CODES
from repotrial.authoring._ecosystem import EcosystemName
from repotrial.authoring._from_commit import create_contract_from_commit
from repotrial.authoring._locking import (
    LockChange,
    LockResult,
    LockUnwritableError,
    lock_contract,
    verify_lock,
)
from repotrial.authoring._new import create_contract
from repotrial.authoring._options import CommitContract, CreatedContract, NewContract, OptionInvalidError
from repotrial.authoring._project import EcosystemUnknownError
from repotrial.authoring._split import (
    ChangeWithoutTestsError,
    EmptyChangeError,
    OnlyTestsChangedError,
    RootCommitError,
    SubmoduleChangedError,
    UnsupportedTestFileError,
)
from repotrial.authoring._staging import ContractDirectoryTakenError, ContractDirectoryUnwritableError
from repotrial.authoring._template import Guess
from repotrial.authoring._test_files import TEST_GLOBS, GlobInvalidError

__all__ = [
    "DRAFT_CODES",
    "TEST_GLOBS",
    "ChangeWithoutTestsError",
    "CommitContract",
    "ContractDirectoryTakenError",
    "ContractDirectoryUnwritableError",
    "CreatedContract",
    "EcosystemName",
    "EcosystemUnknownError",
    "EmptyChangeError",
    "GlobInvalidError",
    "Guess",
    "LockChange",
    "LockResult",
    "LockUnwritableError",
    "NewContract",
    "OnlyTestsChangedError",
    "OptionInvalidError",
    "RootCommitError",
    "SubmoduleChangedError",
    "UnsupportedTestFileError",
    "create_contract",
    "create_contract_from_commit",
    "lock_contract",
    "verify_lock",
]
