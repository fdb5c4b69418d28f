"""Changes of files as text: patches read and written, globs, ignore rules and ranges of lines."""

from repotrial.change._cursor import DEFAULT_LIMITS, PatchLimits
from repotrial.change._gitignore import IgnoreFile
from repotrial.change._globs import PathRules, PolicyGlobError, compile_globs, fold, is_usable_glob
from repotrial.change._line_ranges import LineRange, find_awk_ranges, find_count, find_sed_ranges
from repotrial.change._linediff import Block, find_blocks
from repotrial.change._model import (
    GITLINK,
    SYMLINK,
    AddedLine,
    ChangedFile,
    ChangeKind,
    ChangeView,
    Location,
    PatchUnreadableError,
)
from repotrial.change._read import Section, read_change, read_sections
from repotrial.change._scan import PatchedFile, scan_headers, scan_patch
from repotrial.change._write import (
    TEXT_BYTES,
    Blob,
    BlobMode,
    FilePatch,
    build_file_patch,
    is_text,
    quote_path,
)

__all__ = [
    "DEFAULT_LIMITS",
    "GITLINK",
    "SYMLINK",
    "TEXT_BYTES",
    "AddedLine",
    "Blob",
    "BlobMode",
    "Block",
    "ChangeKind",
    "ChangeView",
    "ChangedFile",
    "FilePatch",
    "IgnoreFile",
    "LineRange",
    "Location",
    "PatchLimits",
    "PatchUnreadableError",
    "PatchedFile",
    "PathRules",
    "PolicyGlobError",
    "Section",
    "build_file_patch",
    "compile_globs",
    "find_awk_ranges",
    "find_blocks",
    "find_count",
    "find_sed_ranges",
    "fold",
    "is_text",
    "is_usable_glob",
    "quote_path",
    "read_change",
    "read_sections",
    "scan_headers",
    "scan_patch",
]
