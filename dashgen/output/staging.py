# SPDX-License-Identifier: Apache-2.0
"""Files and folders that take their place at once, and what is left of a process that was killed before they did.

A stage lies beside its target, under a name that tells both, and its maker holds a lock on it for as long as it
lives. So whoever comes next knows which stages belong to nobody any more, and removes them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_MARK = ".dashgen-"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h


@contextmanager
def locked(folder: Path, make: Callable[[Path], None]) -> Iterator[None]:
    """Nobody else who asks for the same lock works on a folder meanwhile; where locks do not work, without one.

    ``make`` makes sure that it is there, again when somebody who had made it gives up and removes it. Raises OSError.
    """
    handle = None
    while handle is None:
        make(folder)
        handle = _hold_folder(folder)
    try:
        yield
    finally:
        os.close(handle)


def _hold_folder(folder: Path) -> int | None:
    """An open folder with a lock on it; None when it has gone since it was made. Raises OSError."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if _hold(handle, folder):
        return handle
    os.close(handle)
    return None


def _hold(handle: int, path: Path) -> bool:
    """Lock an open file or folder; False when meanwhile another one stands in its place, or none."""
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


class Stage:
    """Finished content beside its target, which it has not replaced yet. Locked until it is closed."""

    def __init__(self, target: Path, content: bytes) -> None:
        """Raises OSError, and leaves nothing, when it cannot be written."""
        self.target = target
        # A stage has a shorter name: what no file can be called has to come out before anything takes its place.
        with suppress(FileNotFoundError):
            target.lstat()
        self.path, self._file = _new_file(target)
        try:
            self._file.write(content)
            self._file.flush()
            os.fsync(self._file.fileno())
            # mkstemp makes files private; generated files are for every reader, within the umask.
            os.fchmod(self._file.fileno(), 0o666 & ~_umask())
        except OSError:
            self.close()
            raise

    def replace(self) -> None:
        """Take the target's place."""
        self.path.replace(self.target)
        self._file.close()

    def close(self) -> None:
        """Go, unless the target has been replaced."""
        self.path.unlink(missing_ok=True)
        with suppress(OSError):
            self._file.close()


def _new_file(target: Path) -> tuple[Path, BinaryIO]:
    """An empty stage, locked: one that is not yet belongs to nobody, and may be swept away."""
    while True:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=_prefix(target))
        if _hold(handle, Path(name)):
            return Path(name), os.fdopen(handle, "wb")
        os.close(handle)


def _new_folder(target: Path) -> tuple[Path, int]:
    """An empty folder as a stage, and its lock."""
    while True:
        made = Path(tempfile.mkdtemp(dir=target.parent, prefix=_prefix(target)))
        handle = _hold_folder(made)
        if handle is not None:
            return made, handle


@contextmanager
def folder(target: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the place of ``target`` when the block ends well, and goes when it does not.

    Raises OSError.
    """
    above = [each for each in target.parents if not each.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    made, handle = _new_folder(target)
    try:
        made.chmod(0o777 & ~_umask())
        yield made
        _swap(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(handle)
        for each in above:
            with suppress(OSError):
                each.rmdir()


def _swap(made: Path, target: Path) -> None:
    """Put a folder in place of another, or where there is none."""
    try:
        # Takes the place of an empty folder, too.
        made.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    else:
        return
    if _exchange(made, target):
        return
    old = made.with_name(made.name + ".old")
    target.rename(old)
    made.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders at once; False where the system cannot."""
    try:
        exchange = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    return bool(
        exchange(_AT_FDCWD, os.fsencode(one.absolute()), _AT_FDCWD, os.fsencode(other.absolute()), _RENAME_EXCHANGE)
        == 0
    )


def sweep(target: Path) -> None:
    """Remove what killed processes have left of a target: stages that nobody holds."""
    stage = re.compile(re.escape(_prefix(target)) + r"[a-z0-9_]{8}(\.old)?")
    with suppress(OSError):
        for path in target.parent.iterdir():
            if stage.fullmatch(path.name):
                _remove_abandoned(path)


def _remove_abandoned(path: Path) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        finally:
            os.close(handle)


def _prefix(target: Path) -> str:
    # A name has at most 255 bytes, of which some stand for one character.
    return f".{target.name[:50]}{_MARK}"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
