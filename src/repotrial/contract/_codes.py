"""What each problem of the loader and of the lock means: one line each, for the reference."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PROBLEM_CODES: Mapping[str, str] = MappingProxyType(
    {
        "artifact-digest": "A file beside the contract does not have the digest that its artifact states.",
        "band-reversed": "A resource's floor is above the point at which the run is ended.",
        "build-gate-unsaid": "No check belongs to the build gate, and the contract does not say why.",
        "check-without-command": "A check has neither `run` nor `runners`.",
        "choice-unknown": "A field has a value that is not among its choices.",
        "file-empty": "A file or directory that must say something is empty.",
        "file-missing": "A file or directory that is named does not exist.",
        "file-name": "The name of an oracle file has characters that do not print, or a backslash.",
        "file-not-utf8": "A text is not UTF-8, or starts with a byte order mark.",
        "file-reserved": "A field names `contract.toml` or the lock, which cannot be parts of themselves.",
        "file-symlink": "A path is, or leads through, a symbolic link.",
        "file-too-large": "A file is larger than files of its kind may be.",
        "file-unreadable": "A file cannot be read.",
        "file-wrong-kind": "A path names a directory instead of a file, the reverse, or something special.",
        "id-duplicate": "Two checks, setup steps, services or artifacts have one id.",
        "id-unknown": "A field names a check or a service that the contract does not have.",
        "inventory-contradiction": "A test id stands in both lists of an inventory.",
        "inventory-id": "A test id is empty or stands twice in one list.",
        "json-syntax": "A file is not strict JSON.",
        "key-invalid": "A key of a free table, such as the name of a variable, is malformed.",
        "key-missing": "A required key is missing.",
        "key-not-enforced": "A key has no effect beside the other keys of the contract.",
        "key-unknown": "A key is not known in its table.",
        "lock-missing": "There is no lock, and so no version id.",
        "lock-stale": "The lock is not true of the directory any more.",
        "more-problems": "A document has more problems than are listed.",
        "mount-inconsistent": "A mount has a field that does not go with its kind, or lacks one.",
        "needs-cycle": "Checks need each other in a circle.",
        "needs-order": "A check needs one that stands later.",
        "negative-amount": "An amount of money is negative.",
        "oracle-shared": "The statement or the reference lies among the oracle's files.",
        "oracle-too-large": "The files beside the contract are too many or too large together.",
        "overlay-collision": "Two overlays of one check lay a file on the same place.",
        "protocol-unknown": "A git transport is unknown, or not among those that the contract allows.",
        "repeats-inconsistent": "`passes_required`, `repeats` and `rule` contradict each other.",
        "run-missing": "`results` or `cwd` stand in a check without `run`.",
        "schema-unknown": "The document is of a schema or a major that this version does not read.",
        "service-phase": "A check needs a service that does not run while checks run.",
        "source-unsafe": "A source would be taken for an option, or is not of a kind that may be fetched.",
        "suite-contracts": "An entry of a suite matches no contract, or one that another entry matches.",
        "target-duplicate": "Two files, artifacts or mounts have one target, or one that must be absent.",
        "toml-syntax": "`contract.toml` is not TOML.",
        "tools-without-host": '`tools` are given although the image is not `"host"`.',
        "value-invalid": "A value is not what its field expects.",
        "variable-contradiction": "A variable is both set and absent, or both a variable and a secret.",
        "weight-out-of-range": "A weight is not between 0 and 1.",
    }
)
