"""The names of what drafting reports, for the reference pages."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DRAFT_CODES: Mapping[str, str] = MappingProxyType(
    {
        "draft-inventory-missing": "The drafted check reports tests, and no inventory names them: only a run "
        "can tell their ids.",
        "draft-inventory-unknown": "Only a run can tell the ids of a test: it is parametrized, or its file "
        "cannot be parsed.",
        "draft-names-check-file": "A line of the drafted statement names a file of the hidden checks.",
        "draft-names-identifier": "A line of the drafted statement uses a name that the change introduces.",
        "draft-names-new-file": "A line of the drafted statement names a file that the change adds.",
        "draft-nothing-fails": "The drafted check runs the project's own tests, which pass on the snapshot.",
        "draft-not-proved": "The tests of the change were run and prove nothing: they do not run here, or "
        "none turns; the message has the reason.",
        "draft-packages-unlocked": "The packages of the time of the change could not be locked.",
        "draft-packages-unstated": "Nothing says which packages the drafted check needs: a sandbox has the "
        "interpreter's own library, and no test runner.",
        "draft-quotes-code": "A line of the drafted statement quotes code of the change.",
        "draft-overlay-other-file": "A hidden check brings a file that is no test by its path: no change of "
        "it by a candidate counts.",
        "draft-source-local": "The repository is named by a path of this machine.",
        "draft-statement-form": "The statement is still the form that `contract new` writes.",
        "draft-statement-message": "The statement is still the commit message.",
        "draft-statement-issue": "The statement is still the text of an issue, as a data set has it.",
        "draft-tells-solution": "A line of the statement, or the title, tells the solution instead of the "
        "problem; `contract check` says so, too, where there is a reference.",
        "draft-image-unused": "A row of a data set names an image; the draft runs on this machine's tools.",
        "draft-runner-other": "The data set has a runner of the project's own; the draft runs pytest.",
        "draft-test-cut": "A test id of a data set is cut at a blank or is a sentence: nothing matches it.",
        "draft-test-unlisted": "Test files of a data set's instance hold tests that its lists do not name; "
        "here they count, too.",
        "draft-tests-left-out": "Tests of the change are not in the inventory, for the reason that the "
        "message has: one problem for each reason, with a count.",
        "draft-title-message": "The title, with which the briefing begins, is still the commit's subject.",
        "draft-python-lock": "The requirements file of `environment.python` has a line that is no pinned "
        "package with a hash: an error of `contract check`; `contract new` refuses the file.",
        "statement-not-approved": "A mined contract has no person's yes to its statement as it is now: an "
        "error of `suite lock`.",
        "unknowable-demand": "Hidden tests ask for a name or a message that the reference introduces and "
        "neither the statement nor the snapshot has: a warning of `contract check`.",
    }
)
"""What each problem means that `contract new` and `contract import` can return."""
