"""A checkpoint's payload: a state written by torch.save, and read by torch.load without running code.

A pickle may call anything that can be imported. What is loaded here may call what torch itself allows for weights, and
the plain types below, which optimizers, schedulers and random generators keep in their states.
"""

import hashlib
import re
import sys
import zipfile
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, Iterator, List, Optional, Tuple, Union, cast

from ..failpoints import reach
from .folder import is_all_trusted

BUILTINS = (
    "int",
    "float",
    "bool",
    "str",
    "bytes",
    "list",
    "tuple",
    "dict",
    "set",
    "frozenset",
    "complex",
    "slice",
    "range",
)
LIBRARY = {  # not defaultdict and deque: torch calls them if they are listed, but cannot fill them
    "collections": ("OrderedDict", "Counter"),
    "datetime": ("datetime", "date", "time", "timedelta", "timezone"),
    "pathlib": ("PurePosixPath", "PosixPath"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "uuid": ("UUID",),
}
NUMBERS = "?bBhHiIlLqQefdgFDGSUmM"  # numpy's types of plain values; no objects
NAMED = re.compile(r"(?:GLOBAL|Unsupported (?:class|operand)|global:?) ([\w.]+\.[\w.]+)")
REFUSED = (
    "holds a %s, which is not loaded: it could run any code. If you trust what is in it: --trust-checkpoint; or, "
    "before weft.init: torch.serialization.add_safe_globals"
)


class PayloadError(Exception):
    """The state cannot be saved or loaded; the message says why."""


def save(state: object, file: BinaryIO) -> Tuple[int, str]:
    """Write a state; its size in bytes and its checksum. A state that could not be loaded again is refused."""
    import torch

    summed = SummedFile(file)
    try:
        torch.save(state, cast("IO[bytes]", summed))
    except Exception as error:
        if summed.error is None:
            raise PayloadError("cannot be pickled: %s: %s" % (type(error).__name__, error)) from error
    if summed.error is not None:
        raise summed.error
    refused = [] if is_all_trusted() else _not_allowed(file)
    if refused:
        raise PayloadError(REFUSED % ", a ".join(refused))
    return summed.size_bytes, summed.sha256


def load(file: BinaryIO) -> Any:
    """The state in a payload, its tensors on the CPU."""
    import torch

    file.seek(0)
    if is_all_trusted():
        return torch.load(file, map_location="cpu", weights_only=False)
    _check_records(file)
    with _allowing():
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:
            refused = _not_allowed(file) or NAMED.findall(str(error))
            if refused:
                raise PayloadError(REFUSED % ", a ".join(refused)) from None
            raise


def _not_allowed(file: BinaryIO) -> List[str]:
    """The callables in it that are not allowed; empty if this torch (before 2.5) cannot list them."""
    from torch import serialization

    named = getattr(serialization, "get_unsafe_globals_in_checkpoint", None)
    if named is None:
        return []
    file.flush()
    file.seek(0)
    with _allowing():
        try:
            return sorted(named(file))
        except Exception:  # noqa: BLE001 -- it is not a readable checkpoint: loading it reports why
            return []
        finally:
            file.seek(0, 2)


def _check_records(file: BinaryIO) -> None:
    """torch stores its records as they are. One that has to be unpacked may be larger than any memory."""
    try:
        records = zipfile.ZipFile(file).infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise PayloadError("is no file of torch.save: %s" % error) from error
    size_bytes = file.seek(0, 2)
    is_packed = any(record.compress_type != zipfile.ZIP_STORED for record in records)
    if is_packed or sum(record.file_size for record in records) > size_bytes:
        raise PayloadError("is no file of torch.save: its records are packed, or larger than itself")
    file.seek(0)


@contextmanager
def _allowing() -> Iterator[None]:
    """Let torch load our list of types besides its own and the script's; only within the block."""
    from torch import serialization

    scope = getattr(serialization, "safe_globals", None)
    if scope is not None:
        with scope(_allowed(with_names=True)):
            yield
    elif hasattr(serialization, "add_safe_globals"):  # torch 2.4
        before = serialization.get_safe_globals()
        serialization.add_safe_globals(_allowed(with_names=False))
        try:
            yield
        finally:
            serialization.clear_safe_globals()
            serialization.add_safe_globals(before)
    else:  # what torch allows by itself: all that weft writes, and the states of optimizers
        yield


def _allowed(with_names: bool) -> List[Any]:
    from importlib import import_module

    allowed: List[Any] = [getattr(import_module("builtins"), name) for name in BUILTINS]
    allowed += [getattr(import_module(module), name) for module, names in LIBRARY.items() for name in names]
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return allowed
    kinds = {type(numpy.dtype(letter)) for letter in NUMBERS} - {numpy.dtype}
    allowed += [numpy.ndarray, numpy.dtype, *kinds]
    inner = numpy._core.multiarray if hasattr(numpy, "_core") else numpy.core.multiarray
    for name in ("scalar", "_reconstruct"):
        made = getattr(inner, name)
        # numpy 2 has moved them: a checkpoint of the other version has the other name.
        names = ["numpy.core.multiarray." + name, "numpy._core.multiarray." + name]
        allowed += [(made, each) for each in names] if with_names else [made]
    return allowed


class SummedFile:
    """What torch.save writes to: counts and sums the bytes on their way to a file.

    torch calls write() from C++, ignores what it returns, and makes "unexpected pos 64 vs 0" of whatever it raises, be
    it a full disk or Ctrl-C. So the first error is kept here, to be raised once torch is done; the rest goes nowhere.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.error: Optional[BaseException] = None
        self.size_bytes = 0
        self._file = file
        self._sum = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._sum.hexdigest()

    def write(self, piece: Union[bytes, memoryview]) -> int:
        if self.error is None:
            try:
                self._file.write(piece)
                self._sum.update(piece)
                self.size_bytes += len(piece)
                reach("payload-partly-written")
            except BaseException as error:  # noqa: BLE001
                self.error = error
        return len(piece)

    def flush(self) -> None:
        """torch asks for it; Folder.new_file does it."""


def sha256_of(file: BinaryIO) -> str:
    """The checksum of what is left to read."""
    checksum = hashlib.sha256()
    for piece in iter(lambda: file.read(1 << 20), b""):
        checksum.update(piece)
    return checksum.hexdigest()
