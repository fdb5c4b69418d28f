"""Patches as data: one reader, one writer, globs, ignore rules, line diff."""

from __future__ import annotations

from repotrial.change._globs import IgnoreFile, PathRules, compile_globs, fold, is_usable_glob
from repotrial.change._hunks import DEFAULT_LIMITS, PatchLimits
from repotrial.change._line_ranges import LineRange, find_awk_ranges, find_count, find_sed_ranges
from repotrial.change._model import (
    GITLINK,
    PATCH_UNREADABLE,
    SYMLINK,
    AddedLine,
    ChangedFile,
    ChangeView,
    Location,
)
from repotrial.change._read import Section, read_change, read_sections
from repotrial.change._scan import PatchedFile, scan_headers, scan_patch
from repotrial.change._write import Blob, BlobMode, FilePatch, build_file_patch, is_text

__all__ = [
    "DEFAULT_LIMITS",
    "GITLINK",
    "PATCH_UNREADABLE",
    "SYMLINK",
    "AddedLine",
    "Blob",
    "BlobMode",
    "ChangeView",
    "ChangedFile",
    "FilePatch",
    "IgnoreFile",
    "LineRange",
    "Location",
    "PatchLimits",
    "PatchedFile",
    "PathRules",
    "Section",
    "build_file_patch",
    "compile_globs",
    "find_awk_ranges",
    "find_count",
    "find_sed_ranges",
    "fold",
    "is_text",
    "is_usable_glob",
    "read_change",
    "read_sections",
    "scan_headers",
    "scan_patch",
]
