"""The walk over a script's syntax: each simple command is put down where it would run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import msgspec
from tree_sitter import Node

from repotrial.shell._documents import iter_misread_sums, unescape_backticks
from repotrial.shell._emit import Context, Emitter, Nested, ShellLimits
from repotrial.shell._files import Collector
from repotrial.shell._model import Assignment, FaultReason, Nesting, Redirection, RedirectionKind, Word
from repotrial.shell._source import SUBSTITUTIONS, HereDocument, iter_substitution_nodes
from repotrial.shell._words import WORD_TYPES, Variables, WordReader

_MAX_DEPTH: Final = 60
_MAX_VALUE: Final = 8192
"""Characters of a variable that are followed; `A=$A$A` doubles each time."""
_MAX_TURNS: Final = 16
"""Values of a loop that are followed one by one."""
_NESTINGS: Final[Mapping[str, Nesting]] = {
    "if_statement": "condition",
    "elif_clause": "condition",
    "else_clause": "condition",
    "case_statement": "condition",
    "case_item": "condition",
    "while_statement": "loop",
    "c_style_for_statement": "loop",
}
_OPERATORS: Final[Mapping[str, RedirectionKind]] = {
    "<": "read",
    ">": "write",
    ">|": "write",
    "&>": "write",
    ">>": "append",
    "&>>": "append",
    "<&": "duplicate",
    ">&": "duplicate",
    "<&-": "duplicate",
    ">&-": "duplicate",
}
_REDIRECTS: Final = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_Streams: TypeAlias = tuple[Node, ...]


class Walker:
    """Reads one piece of a script into a collection."""

    def __init__(
        self,
        collector: Collector,
        original: bytes,
        offset: int,
        *,
        documents: Mapping[int, HereDocument],
        limits: ShellLimits,
        nested: Nested,
    ) -> None:
        self._collector = collector
        self._offset = offset
        self._documents = documents
        self._emitter = Emitter(collector, limits=limits, nested=nested)
        self._reader = WordReader(original, offset, self._substitute)
        self._substituted: list[int] = []
        self._scope = Variables({}, ".")
        self._context = Context()
        self._depth = 0

    def walk_all(self, root: Node, scope: Variables) -> str | None:
        """Read a whole tree; answers what it would print, where that is known."""
        output = self._walk_children(root, scope, Context())
        if root.has_error:
            places = iter_misread_sums(root)
            texts = ((self._offset + each, self._reader.slice(each, root.end_byte)) for each in places)
            self._emitter.fill_misread(texts, scope, self._span(root))
            if not self._collector.faults:
                self._fault(root, "syntax")
        return output

    def _walk_children(self, node: Node, scope: Variables, context: Context) -> str | None:
        outputs: list[str | None] = []
        children = node.children
        for index, child in enumerate(children):
            if child.is_named and child.type != "comment":
                follows = children[index + 1].type if index + 1 < len(children) else ""
                here = context.replace(is_background=True) if follows == "&" else context
                outputs.append(self._walk(child, scope, here))
        return outputs[0] if len(outputs) == 1 else None

    def _walk(self, node: Node, scope: Variables, context: Context, redirects: _Streams = ()) -> str | None:
        if self._depth >= _MAX_DEPTH:
            self._fault(node, "too-deep")
            return None
        if not self._collector.spend(*self._span(node)):
            return None
        self._depth += 1
        try:
            return self._dispatch(node, scope, context, redirects)
        finally:
            self._depth -= 1

    def _dispatch(self, node: Node, scope: Variables, context: Context, redirects: _Streams) -> str | None:
        match node.type:
            case "command" | "declaration_command" | "unset_command" | "test_command":
                return self._walk_command(node, scope, context, redirects)
            case "redirected_statement":
                return self._walk_redirected(node, scope, context, redirects)
            case "pipeline":
                return self._walk_pipeline(node, scope, context, redirects)
            case "list":
                self._walk_list(node, scope, context, redirects)
                return None
            case "negated_command":
                inner = [child for child in node.children if child.is_named]
                return self._walk(inner[0], scope, context, redirects) if inner else None
            case "variable_assignment" | "variable_assignments":
                self._collector.assignments.extend(self._assign(node, scope, context))
                return None
            case _:
                output = self._walk_compound(node, scope, context)
                if redirects:
                    self._emit_redirects(scope, context, redirects)
                return output

    def _walk_compound(self, node: Node, scope: Variables, context: Context) -> str | None:
        match node.type:
            case "subshell":
                return self._walk_children(node, scope.fork(), context.enter("subshell"))
            case "for_statement":
                self._walk_for(node, scope, context.enter("loop"))
            case "function_definition":
                self._walk_function(node, scope, context)
            case "ERROR":
                self._fault(node, "syntax")
                self._salvage(node, scope, context)
            case "file_redirect" | "herestring_redirect":
                self._emit_redirects(scope, context, (node,))
            case kind if kind in WORD_TYPES:
                self._read_words(node, scope, context)
            case kind:
                nesting = _NESTINGS.get(kind)
                self._walk_children(node, scope, context if nesting is None else context.enter(nesting))
        return None

    def _walk_list(self, node: Node, scope: Variables, context: Context, redirects: _Streams) -> None:
        """`a && b || c` leans to the left; a long one must not nest our calls."""
        waiting: list[Node] = [node]
        parts: list[Node] = []
        while waiting:
            current = waiting.pop()
            if current.type == "list":
                waiting.extend(child for child in reversed(current.children) if child.is_named)
            elif current.type != "comment":
                parts.append(current)
        for index, part in enumerate(parts):
            self._walk(part, scope, context, redirects if index == len(parts) - 1 else ())

    def _walk_pipeline(
        self, node: Node, scope: Variables, context: Context, redirects: _Streams
    ) -> str | None:
        parts = [child for child in node.children if child.is_named and child.type != "comment"]
        output = context.input_text
        here = context
        for index, part in enumerate(parts):
            first = len(self._collector.commands)
            last = redirects if index == len(parts) - 1 else ()
            output = self._walk(part, scope.fork(), here, last)
            level = context.nesting.count("substitution")
            sources = tuple(
                number
                for number in range(first, len(self._collector.commands))
                if self._collector.commands[number].nesting.count("substitution") == level
            )
            here = context.replace(sources=sources, input_text=output)
        return output

    def _walk_redirected(
        self, node: Node, scope: Variables, context: Context, redirects: _Streams
    ) -> str | None:
        own = tuple(child for child in node.children if child.type in _REDIRECTS)
        body = next(
            (child for child in node.children if child.is_named and child.type not in _REDIRECTS), None
        )
        if body is None:
            self._emit_redirects(scope, context, (*own, *redirects))
            return None
        return self._walk(body, scope, context, (*own, *redirects))

    def _walk_for(self, node: Node, scope: Variables, context: Context) -> None:
        name = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        values = [
            word
            for child in node.children_by_field_name("value")
            for word in self._read_words(child, scope, context)
        ]
        if body is None or name is None:
            return
        turns: list[str | None] = [None]
        if values and len(values) <= _MAX_TURNS and all(word.is_static for word in values):
            turns = [word.text for word in values]
        for value in turns:
            if self._collector.is_full:
                break
            scope.variables[self._reader.text_of(name)] = value
            self._walk_children(body, scope, context)

    def _walk_function(self, node: Node, scope: Variables, context: Context) -> None:
        name = node.child_by_field_name("name")
        if name is not None:
            self._collector.functions.append((self._reader.text_of(name), *self._span(node)))
        body = node.child_by_field_name("body")
        if body is not None:
            self._walk(body, scope.fork(), context.enter("function"))

    def _walk_command(
        self, node: Node, scope: Variables, context: Context, redirects: _Streams
    ) -> str | None:
        kept, self._substituted = self._substituted, []
        first = node.children[0] if node.children else node
        assignments: tuple[Assignment, ...] = ()
        if node.type == "test_command":
            self._read_inside(node, scope, context)
            words = [self._place(first, "[")]
        elif node.type == "command":
            assignments = tuple(
                each
                for child in node.children
                if child.type == "variable_assignment"
                for each in self._assign(child, scope.fork(), context)
            )
            words = self._join_words(node.children, scope, context)
        else:
            words = [self._place(first, self._reader.text_of(first))]
            words += self._join_words(node.children[1:], scope, context)
            assignments = tuple(self._assign(node, scope, context))
        inside = tuple(child for child in node.children if child.type in _REDIRECTS)
        streams = self._read_redirects((*inside, *redirects), scope, context)
        whole = (self._span(node)[0], max(self._span(each)[1] for each in (node, *redirects)))
        substituted, self._substituted = tuple(self._substituted), kept
        return self._emitter.emit(
            tuple(words),
            scope,
            context.replace(substitutions=substituted),
            streams=streams,
            assignments=assignments,
            place=whole,
        )

    def _join_words(self, nodes: list[Node], scope: Variables, context: Context) -> list[Word]:
        """Words in order; a backslash at the end of a line joins what the grammar has taken apart."""
        words: list[Word] = []
        end = -1
        for node in nodes:
            if node.type not in WORD_TYPES:
                continue
            read = self._read_words(node, scope, context)
            if words and read and self._reader.slice(end, node.start_byte) == "\\\n":
                joined = words.pop()
                text = joined.text + read[0].text
                words.append(msgspec.structs.replace(joined, text=text, end=read[0].end, verbatim_start=None))
                words.extend(read[1:])
            else:
                words.extend(read)
            end = node.end_byte
        return words

    def _read_words(self, node: Node, scope: Variables, context: Context) -> tuple[Word, ...]:
        self._scope, self._context = scope, context
        return self._reader.read(node, scope)

    def _read_inside(self, node: Node, scope: Variables, context: Context) -> None:
        """Substitutions anywhere below a node."""
        for child in iter_substitution_nodes(node):
            self._read_words(child, scope, context)

    def _substitute(self, node: Node) -> str | None:
        first = len(self._collector.commands)
        kind: Nesting = "process-substitution" if node.type == "process_substitution" else "substitution"
        scope, context = self._scope, self._context
        text, place = self._reader.text_of(node), self._span(node)
        output = None
        if node.type not in SUBSTITUTIONS:
            self._emitter.fill_in(text, place[0], scope, context, place)
        elif text.startswith("`") and "\\" in text:
            is_quoted = node.parent is not None and node.parent.type == "string"
            commands = unescape_backticks(text[1:-1], is_quoted=is_quoted)
            output = self._emitter.read_substitution(commands, scope, context, (*place, None))
        elif self._depth >= _MAX_DEPTH:
            self._fault(node, "too-deep")
        else:
            output = self._walk_children(node, scope.fork(), Context(nesting=(*context.nesting, kind)))
        self._scope, self._context = scope, context
        self._substituted.extend(range(first, len(self._collector.commands)))
        return output

    def _assign(self, node: Node, scope: Variables, context: Context) -> Iterator[Assignment]:
        if node.type != "variable_assignment":
            for child in node.children:
                if child.type == "variable_assignment":
                    yield from self._assign(child, scope, context)
            return
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name":
            self._read_inside(node, scope, context)
            return
        key = self._reader.text_of(name)
        word = self._place(node, "") if value is None else None
        if value is not None and value.type == "array":
            self._read_inside(value, scope, context)
        elif value is not None:
            self._scope, self._context = scope, context
            word = self._reader.read_one(value, scope)
        known = word.text if word is not None and word.is_static else None
        if any(child.type == "+=" for child in node.children) and known is not None:
            before = scope.find(key)
            known = None if before is None else before + known
        scope.variables[key] = known if known is not None and len(known) <= _MAX_VALUE else None
        yield Assignment(name=key, value=word)

    def _read_redirects(self, nodes: _Streams, scope: Variables, context: Context) -> tuple[Redirection, ...]:
        return tuple(each for node in nodes for each in self._read_redirect(node, scope, context))

    def _read_redirect(self, node: Node, scope: Variables, context: Context) -> Iterator[Redirection]:
        operator = next((child for child in node.children if child.type in _OPERATORS), None)
        targets = [
            child for child in node.children if child.type in WORD_TYPES and child.type != "file_descriptor"
        ]
        self._scope, self._context = scope, context
        if node.type == "herestring_redirect":
            word = self._reader.read_one(targets[0], scope) if targets else None
            yield Redirection(
                kind="here-string", target=None, text=None if word is None else word.text + "\n"
            )
        elif node.type == "heredoc_redirect":
            body = next((child for child in node.children if child.type == "heredoc_body"), None)
            self._read_inside(node, scope, context)
            yield Redirection(
                kind="here-doc",
                text=None if body is None else self._reader.text_of(body),
                text_start=None if body is None else self._offset + body.start_byte,
            )
        elif operator is not None:
            document = self._documents.get(self._offset + operator.start_byte)
            if document is not None:
                if not document.is_raw:
                    text, place = document.text, self._span(node)
                    self._substituted += self._emitter.fill_in(text, document.start, scope, context, place)
                yield Redirection(kind="here-doc", text=document.text, text_start=document.start)
                return
            kind = _OPERATORS[operator.type]
            for target in targets:
                word = self._reader.read_one(target, scope)
                is_copy = kind == "duplicate" and re.fullmatch(r"\d+|-", word.text)
                yield Redirection(kind=kind if is_copy or kind != "duplicate" else "write", target=word)

    def _emit_redirects(self, scope: Variables, context: Context, redirects: _Streams) -> None:
        kept, self._substituted = self._substituted, []
        streams = self._read_redirects(redirects, scope, context)
        place = (self._span(redirects[0])[0], self._span(redirects[-1])[1])
        substituted, self._substituted = tuple(self._substituted), kept
        here = context.replace(substitutions=substituted)
        self._emitter.emit((), scope, here, streams=streams, assignments=(), place=place)

    def _salvage(self, node: Node, scope: Variables, context: Context) -> None:
        """What stands in a place that is no syntax: commands as usual, loose words as one command."""
        loose: list[Node] = []

        def flush() -> None:
            if loose:
                words = tuple(self._join_words(loose, scope, context))
                place = (self._span(loose[0])[0], self._span(loose[-1])[1])
                self._emitter.emit(words, scope, context, streams=(), assignments=(), place=place)
                loose.clear()

        for child in node.children:
            if child.type in WORD_TYPES:
                loose.append(child)
                continue
            flush()
            if child.is_named and child.type != "comment":
                self._walk(child, scope, context)
        flush()

    def _place(self, node: Node, text: str) -> Word:
        start, end = self._span(node)
        return Word(text=text, start=start, end=end)

    def _span(self, node: Node) -> tuple[int, int]:
        return self._offset + node.start_byte, self._offset + node.end_byte

    def _fault(self, node: Node, reason: FaultReason) -> None:
        self._collector.fault(*self._span(node), reason)
