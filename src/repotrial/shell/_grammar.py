"""The grammar that scripts are read by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_LANGUAGE = Language(tree_sitter_bash.language())


def parse_bytes(data: bytes) -> Node:
    """The root of the syntax."""
    return Parser(_LANGUAGE).parse(data).root_node


def iter_substitution_nodes(node: Node) -> Iterator[Node]:
    """Substitutions anywhere below a node, in order; not those within them."""
    waiting = node.children[::-1]
    while waiting:
        child = waiting.pop()
        if child.type in SUBSTITUTIONS:
            yield child
        else:
            waiting.extend(reversed(child.children))
