"""Reading a price book: all problems at once, each with its line, its field and what to do (P21)."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import get_args

import msgspec

from repotrial._core.canonical import MAX_SAFE_INTEGER
from repotrial._core.digest import digest_bytes
from repotrial._core.display import escape_unprintable
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.files import read_package_data
from repotrial.cost._book import (
    ACTION_UNITS,
    MAX_NAME_LENGTH,
    TOKEN_KINDS,
    ModelPrices,
    Price,
    PriceBook,
    TokenKind,
)

BUNDLED_BOOK = "prices-2026-11.csv"
"""The dated table that comes with the package."""

MAX_BOOK_BYTES = 4 * 1024 * 1024

_REQUIRED = ("action_type", "unit", "unit_price")
_READ = (*_REQUIRED, "notes", "above_tokens", "max_output_tokens", "currency")
_PRICE = re.compile(r"(0|[1-9][0-9]{0,5})(\.[0-9]{1,12})?")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,15}")


class BookProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a price book."""

    line: int
    """In the file, from 1."""
    field: str
    """The column; empty if the whole line is meant."""
    message: str
    """What was expected and what was found."""
    fix: str
    """What to do."""


PRICE_BOOK = ErrorCode(
    "price-book",
    ContractError,
    "A price book cannot be used. All of its problems are listed, each with line, field and fix.",
    hint="see docs/how-to/price-a-study.md for the columns and action types",
)


def _build_error(name: str, problems: Sequence[BookProblem]) -> ContractError:
    listed = sorted(problems, key=lambda problem: (problem.line, problem.field))
    lines = [
        escape_unprintable(
            f"{name}:{problem.line}: {problem.field and problem.field + ': '}{problem.message}; {problem.fix}"
        )
        for problem in listed
    ]
    return PRICE_BOOK.error("\n".join(lines), details=listed)


def load_price_book(path: Path | None) -> PriceBook:
    """Read a book; the dated table of common models that comes with the package if there is no path.

    Raises:
        PRICE_BOOK: it cannot be read, or has problems.
    """
    if path is None:
        return parse_book(read_package_data(__package__, BUNDLED_BOOK), name=BUNDLED_BOOK)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BOOK_BYTES + 1)
    except OSError as error:
        raise _build_error(
            str(path),
            [
                BookProblem(
                    line=1,
                    field="",
                    message=f"expected a readable file, found: {error.strerror}",
                    fix="check the path",
                )
            ],
        ) from error
    return parse_book(data, name=str(path))


def parse_book(data: bytes, *, name: str) -> PriceBook:
    """Read a book from its bytes.

    Raises:
        PRICE_BOOK: it has problems.
    """
    reading = _Reading()
    reading.read(data)
    models = dict(reading.build_models())
    if not reading.problems and not models and not reading.actions:
        reading.report(1, "", "expected at least one price, found none", "declare what actions cost")
    if reading.problems:
        raise _build_error(name, reading.problems)
    return PriceBook(digest=digest_bytes(data), models=models, actions=reading.actions)


class _Reading:
    """A book while it is read."""

    def __init__(self) -> None:
        self.problems: list[BookProblem] = []
        self.actions: dict[str, Price] = {}
        self._rows: dict[tuple[str, TokenKind], dict[int, Price]] = {}

    def report(self, line: int, field: str, message: str, fix: str) -> None:
        self.problems.append(BookProblem(line=line, field=field, message=message, fix=fix))

    def read(self, data: bytes) -> None:
        if len(data) > MAX_BOOK_BYTES:
            self.report(1, "", f"expected at most {MAX_BOOK_BYTES} bytes, found more", "remove unused models")
            return
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            self.report(line, "", "expected UTF-8, found other bytes", "save the file as UTF-8")
            return
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        try:
            self._read_rows(rows)
        except csv.Error as error:
            self.report(max(rows.line_num, 1), "", f"expected CSV, found: {error}", "correct the quoting")

    def _read_rows(self, rows: Iterator[list[str]]) -> None:
        header = [cell.strip() for cell in next(rows, [])]
        if not self._check_header(header):
            return
        for cells in rows:
            line: int = rows.line_num  # type: ignore[attr-defined]  # csv's reader has it, its type does not
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                found = f"expected {len(header)} cells, found {len(cells)}"
                self.report(line, "", found, "quote cells that hold a comma; leave empty cells empty")
                continue
            self._read_row(line, dict(zip(header, (cell.strip() for cell in cells), strict=True)))

    def _check_header(self, header: Sequence[str]) -> bool:
        before = len(self.problems)
        for column in _REQUIRED:
            if column not in header:
                self.report(1, column, "expected this column, found none", f"add {column} to the first line")
        for column in sorted({column for column in header if header.count(column) > 1}):
            self.report(1, column, "expected one column of this name, found more", "rename one of them")
        return len(self.problems) == before

    def _read_row(self, line: int, row: Mapping[str, str]) -> None:
        before = len(self.problems)
        action, name, kind = self._read_action(line, row["action_type"])
        per = self._read_unit(line, action, row["unit"])
        unit_price = self._read_price(line, row)
        above = self._read_whole(line, row, "above_tokens") or 0
        bound = self._read_whole(line, row, "max_output_tokens")
        if row.get("currency", "") not in {"", "usd", "USD"}:
            found = f"expected usd, found {row['currency']!r}"
            self.report(line, "currency", found, "convert the price and say the rate in notes")
        if above and kind is None:
            self.report(line, "above_tokens", "expected nothing here, found a tier", "only models have tiers")
        if len(self.problems) > before:
            return
        price = Price(
            unit_price=unit_price,
            per=per,
            above_tokens=above,
            max_output_tokens=bound,
            line=line,
            notes=row.get("notes", ""),
            extra={column: cell for column, cell in row.items() if column not in _READ},
        )
        self._keep(price, action, name, kind)

    def _keep(self, price: Price, action: str, name: str, kind: TokenKind | None) -> None:
        if kind is None:
            earlier = self.actions.setdefault(action, price)
        else:
            earlier = self._rows.setdefault((name, kind), {}).setdefault(price.above_tokens, price)
        if earlier is not price:
            found = f"expected one price for each action and tier, found one in line {earlier.line}"
            self.report(price.line, "action_type", found, "remove one of the two")

    def _read_action(self, line: int, text: str) -> tuple[str, str, TokenKind | None]:
        if not text.startswith("model:"):
            if text not in ACTION_UNITS or text == "model":
                known = [action for action in ACTION_UNITS if action != "model"]
                self._report_unknown(line, "action_type", text, [*known, "model:NAME:input"])
            return text, "", None
        name, _, kind_text = text.removeprefix("model:").rpartition(":")
        kind = next((known for known in TOKEN_KINDS if known == kind_text), None)
        if kind is None:
            self._report_unknown(line, "action_type", kind_text, [f"{kind}" for kind in get_args(TokenKind)])
        if not 0 < len(name) <= MAX_NAME_LENGTH or "*" in name[:-1]:
            found = f"expected model:NAME:KIND with a * at most at the end of NAME, found {text[:300]!r}"
            fix = f"name a model, or a prefix with * behind it, in at most {MAX_NAME_LENGTH} characters"
            self.report(line, "action_type", found, fix)
        return "model", name, kind or "input"

    def _read_unit(self, line: int, action: str, text: str) -> int:
        units = ACTION_UNITS.get(action)
        if units is None:  # reported with the action
            return 1
        if text not in units:
            self._report_unknown(line, "unit", text, list(units))
        return units.get(text, 1)

    def _read_price(self, line: int, row: Mapping[str, str]) -> Decimal:
        text = row["unit_price"]
        if not _PRICE.fullmatch(text):
            found = f"expected a plain decimal such as 2.50, at least 0, found {text!r}"
            self.report(line, "unit_price", found, "write at most 6 digits before the point and 12 behind it")
            return Decimal(0)
        price = Decimal(text)
        if not price and not row.get("notes"):
            found = "expected a reason beside a price of 0, found none"
            self.report(line, "notes", found, "say in notes why it costs nothing")
        return price

    def _read_whole(self, line: int, row: Mapping[str, str], field: str) -> int | None:
        text = row.get(field, "")
        if not text:
            return None
        if not _WHOLE.fullmatch(text) or int(text) > MAX_SAFE_INTEGER:
            found = f"expected a whole number of tokens, found {text!r}"
            self.report(line, field, found, "write digits only, or leave it empty")
            return None
        return int(text)

    def _report_unknown(self, line: int, field: str, text: str, known: Sequence[str]) -> None:
        near = difflib.get_close_matches(text, known, n=1)
        fix = f"did you mean {near[0]}?" if near else "choose one of them"
        self.report(line, field, f"expected one of {', '.join(known)}, found {text!r}", fix)

    def build_models(self) -> Iterator[tuple[str, ModelPrices]]:
        """Rows by model; each has input and output from the first token on."""
        for name in dict.fromkeys(name for name, _ in self._rows):
            tiers = {
                kind: tuple(rows[above] for above in sorted(rows))
                for kind in TOKEN_KINDS
                if (rows := self._rows.get((name, kind)))
            }
            first = min(price.line for prices in tiers.values() for price in prices)
            for kind in TOKEN_KINDS:
                self._check_start(name, kind, tiers.get(kind, ()), first)
            yield name, ModelPrices(name=name, tiers=tiers)

    def _check_start(self, name: str, kind: TokenKind, prices: Sequence[Price], first_line: int) -> None:
        if not prices and kind in {"input", "output"}:
            found = f"expected a price of model:{name}:{kind}, found none"
            self.report(first_line, "action_type", found, f"add a row model:{name}:{kind}")
        elif prices and prices[0].above_tokens:
            found = f"expected the first tier from 0 tokens on, found {prices[0].above_tokens}"
            self.report(prices[0].line, "above_tokens", found, "add a row with above_tokens empty")
