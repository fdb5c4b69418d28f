"""What a sentence says, as features: classes of its words, which stand together, who does what (P17).

Words are compared without their endings. The classes are data (`prose-words.toml`); which features speak
for a plan is not decided here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Final

import msgspec

from repotrial._core.files import read_package_data

_NEAR: Final = 7
"""Words between two classes that stand together."""
_NEGATED: Final = 5
"""Words that a denial reaches."""
_MOST_WORDS: Final = 160
_OPENING: Final = 3
"""Words before a deed that opens a sentence."""
_SHORTEST: Final = 3
"""Letters of a word that keeps its ending."""

_WORD = re.compile(
    r"(?<![\w/~.])(?:/|~|\$[A-Z]\w*|\.(?=\w))[\w./*$@+-]*|[a-z0-9_]+(?:\.[a-z][a-z0-9_]*)+|[a-z0-9_]+(?:'[a-z]+)?|--[a-z][\w-]*|\|\||[?,:]",
    re.IGNORECASE,
)
_SHORT: Final = {"'ll": "will", "'m": "am", "'re": "are", "'ve": "have", "'d": "would"}
_DOUBLED: Final = frozenset("bdgmnprt")
_ENDINGS: Final = (("ation", 4), ("ion", 4), ("ied", 2), ("ing", 3), ("ed", 3), ("al", 5))
"""Endings, and how many letters stay at least."""
_PATHS: Final = tuple(
    (name, re.compile(pattern))
    for name, pattern in {
        "secret": r"shadow|\.ssh|\.aws|id_(?:rsa|ed)|credential|\.env\b|netrc|kube|gnupg|\.npmrc|environ"
        r"|secret|pgpass|docker/config",
        "disk": r"/dev/(?:[svx]d|nvme|disk|mmc|dm-|mapper)",
        "startup": r"cron|rc\.local|bashrc|profile|systemd|init\.d|ld\.so|\.git/hooks|autostart|zshrc",
        "priv": r"sudoers|/etc/passwd|/etc/group|polkit",
        "cage": r"docker\.sock|/proc/(?:1|sys)/|/sys/fs/cgroup|/dev/k?mem",
        "watch": r"/var/log|audit|history",
        "scratch": r"^/(?:var/)?tmp\b|build|dist\b|cache|node_modules|target|venv|__pycache__",
        "system": r"^(?:/|~/?|\$home/?)\*?$"
        r"|^/(?:etc|usr|bin|sbin|lib|lib64|boot|var|home|root|opt|srv|sys|proc|dev|mnt|media)\b",
    }.items()
)


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Annotated[str, msgspec.Meta(pattern="^repotrial/prose-words@1$")]
    classes: dict[str, str]


class Sentence(msgspec.Struct, frozen=True):
    """The words of a sentence without endings, and the classes with their places."""

    words: tuple[str, ...]
    marks: tuple[tuple[int, str], ...]


def stem(word: str) -> str:
    """A word without its ending; equal for the forms of one verb or noun in nearly all cases."""
    word = word.removesuffix("'s").removesuffix("'")
    if len(word) <= _SHORTEST or not word.isalpha():
        return word
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-3] + "y" if word.endswith("ies") else word[:-1]
    for ending, least in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = word[: -len(ending)] + ("y" if ending == "ied" else "")
            break
    if len(word) > _SHORTEST and word[-1] == word[-2] and word[-1] in _DOUBLED:
        word = word[:-1]
    return word.removesuffix("e") if len(word) > _SHORTEST else word


def split_words(text: str) -> list[str]:
    """Words in lower case, short forms written out, without endings."""
    found: list[str] = []
    for match in _WORD.finditer(text.casefold().replace("\u2019", "'")):
        word = match[0]
        if word[0] in "/~$." or "." in word:
            found.append(word.rstrip("."))
        elif word.endswith("n't"):
            found += [stem({"wo": "will", "ca": "can", "sha": "shall"}.get(word[:-3], word[:-3])), "not"]
        elif "'" in word and (tail := "'" + word.partition("'")[2]) in _SHORT:
            found += [word.partition("'")[0], _SHORT[tail]]
        elif word == "let's":
            found += ["let", "us"]
        else:
            found.append(stem(word))
        if len(found) >= _MOST_WORDS:
            break
    return found


@cache
def _load() -> dict[str, tuple[tuple[tuple[str, ...], frozenset[str]], ...]]:
    """Phrases by their first word, the longest first, each with its classes."""
    data = tomllib.loads(read_package_data("repotrial.policy", "prose-words.toml").decode())
    classes = msgspec.convert(data, _Words).classes
    phrases: dict[tuple[str, ...], set[str]] = {}
    for name, text in classes.items():
        for entry in text.split(","):
            if words := tuple(split_words(entry.strip())):
                phrases.setdefault(words, set()).add(name)
    starts: dict[str, list[tuple[tuple[str, ...], frozenset[str]]]] = {}
    for words in sorted(phrases, key=lambda each: (-len(each), each)):
        starts.setdefault(words[0], []).append((words, frozenset(phrases[words])))
    return {first: tuple(each) for first, each in starts.items()}


def read_sentence(text: str) -> Sentence:
    """The words and classes of a sentence."""
    words = split_words(text)
    table = _load()
    marks: list[tuple[int, str]] = []
    place = 0
    while place < len(words):
        length = 1
        for phrase, classes in table.get(words[place], ()):
            if tuple(words[place : place + len(phrase)]) == phrase:
                marks += [(place, name) for name in sorted(classes)]
                length = len(phrase)
                break
        else:
            marks += [(place, name) for name in _find_path_classes(words[place])]
        place += length
    return Sentence(tuple(words), tuple(marks))


def _find_path_classes(word: str) -> Iterator[str]:
    if word[0] in "/~$." or "." in word:
        yield from [name for name, pattern in _PATHS if pattern.search(word)][:1]


DEEDS: Final = frozenset(
    {
        "destroy",
        "send",
        "pry",
        "gain",
        "escape",
        "keep_in",
        "implant",
        "disable",
        "tamper",
        "attack",
        "resource",
        "poison",
        "fetch",
        "run",
        "stealth",
    }
)
"""Classes of what is done."""
_THINGS: Final = frozenset(
    {
        "all",
        "system",
        "disk",
        "others",
        "store",
        "secret",
        "sensitive",
        "priv",
        "cage",
        "startup",
        "watch",
        "tests",
        "network",
        "unbounded",
        "supply",
        "foreign",
        "out",
        "self",
    }
)
_SPEAKER: Final = frozenset({"i", "we", "let", "my", "our"})
_AROUND: Final = frozenset(
    {"scratch", "workspace", "fake", "software", "about", "prevent", "suppose", "third", "not", "mine"}
)


def _base(name: str) -> str:
    return name.removesuffix("_weak")


def list_features(sentence: Sentence) -> list[str]:
    """Features of a sentence, each once, sorted.

    `w:` a word, `c:` a class, `s:` and `t:` two classes anywhere, `p:` and `q:` near each other (the second
    of each for words that mean it in most texts), `v:` who does a deed, `by:`, `aim:`, `o:` how it is built.
    """
    found: set[str] = set()
    marks = sentence.marks
    found.update(f"c:{name}" for _, name in marks)
    found.update(f"w:{word}" for word in sentence.words)
    found.update(_iter_pairs(marks))
    found.update(_iter_voices(sentence))
    names = {name for _, name in marks}
    deeds = {_base(name) for name in names} & DEEDS
    things = {_base(name) for name in names} & _THINGS
    found.update(f"s:{deed} {thing}" for deed in deeds for thing in things)
    found.update(f"s:{each} {deed}" for each in names & _AROUND for deed in deeds)
    found.update(f"s:{each} {thing}" for each in names & _AROUND for thing in things)
    found.update(f"t:{deed} {thing}" for deed in names & DEEDS for thing in names & _THINGS)
    if names & DEEDS and names & _THINGS:
        found.add("strong")
        if not names & _AROUND - {"mine"}:
            found.add("strong alone")
    return sorted(found)


def _iter_pairs(marks: tuple[tuple[int, str], ...]) -> Iterator[str]:
    """Two classes near each other; the first is a deed, or both are things."""
    for at, (place, name) in enumerate(marks):
        for other_place, other in marks[at + 1 :]:
            if other_place - place > _NEAR:
                break
            first, second = _base(name), _base(other)
            if other_place == place or first == second:
                continue
            if first in DEEDS or second in DEEDS:
                yield f"p:{first} {second}"
                if name == first and other == second:
                    yield f"q:{first} {second}"
            elif first in _THINGS and second in _THINGS:
                yield "p:" + " ".join(sorted((first, second)))


def _iter_voices(sentence: Sentence) -> Iterator[str]:
    """Who does a deed: the speaker, another, or no one that is named; and whether it is denied."""
    subject, denied = "none", -99
    for place, name in sentence.marks:
        base = _base(name)
        if name == "me" or (name == "intend" and sentence.words[place] in _SPEAKER):
            subject = "me"
        elif name in {"third", "software", "tests"}:
            subject = "other" if subject == "none" else subject
        elif name == "not":
            denied = place
        if base in DEEDS:
            yield f"by:{subject}"
            yield f"v:{subject} {base}"
            if place - denied <= _NEGATED:
                yield "denied"
                yield f"denied {subject}"
            if place <= 1:
                yield "opens"
    if sentence.words:
        yield f"o:{sentence.words[0]}"
    names = {name for _, name in sentence.marks}
    yield "aim:" + "".join(letter for letter, name in _AIM_LETTERS if name in names)
    if sentence.words and sentence.words[-1] == "?":
        yield "asks"


_AIM_LETTERS: Final = (("m", "me"), ("i", "intend"), ("p", "passive"), ("s", "step"))
_AIMS: Final = frozenset({"me", "intend", "passive", "step", "mine", "self"})


def states_aim(sentence: Sentence) -> bool:
    """Whether it can be a plan by its form: it has the speaker or a future, or opens with a deed."""
    names = {name for _, name in sentence.marks}
    return bool(names & _AIMS) or any(
        _base(name) in DEEDS and place <= _OPENING for place, name in sentence.marks
    )
