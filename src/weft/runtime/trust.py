"""Whose checkpoints are loaded: those that only this user, or root, can have written.

A checkpoint is a pickle, so to load one is to trust all who could write it. What is checked is the file that is open,
not its name: what is done to the name afterwards, or to the folders above, changes nothing.
"""

import os
import stat
from typing import Optional

VARIABLE = "WEFT_TRUST_CHECKPOINT"
HINT = "; if you trust what is in it: --trust-checkpoint"


def is_all_trusted() -> bool:
    """Whether the user has said so for this run (weft exec, run, submit --trust-checkpoint)."""
    return os.environ.get(VARIABLE) == "1"


def distrust_of(descriptor: int) -> Optional[str]:
    """Why the file or folder that is open there may be of another user's making; None if it cannot be."""
    status = os.fstat(descriptor)
    if status.st_uid not in (os.geteuid(), 0):
        return "belongs to user %d, and this is user %d%s" % (status.st_uid, os.geteuid(), HINT)
    if status.st_mode & stat.S_IWOTH:
        return "can be written by all users (chmod o-w)%s" % HINT
    if status.st_mode & stat.S_IWGRP and not (_is_private(status.st_gid) and not _has_list(descriptor)):
        return "can be written by the users of group %d (chmod g-w)%s" % (status.st_gid, HINT)
    return None


def _is_private(group: int) -> bool:
    """Whether nobody but this user is in the group, as where each user has one of the same name and umask is 002."""
    import grp
    import pwd

    try:
        listed = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(group).gr_mem}
    except KeyError:
        return False
    by_default = {user.pw_uid for user in pwd.getpwall() if user.pw_gid == group}
    return listed | by_default == {os.geteuid()}


def _has_list(descriptor: int) -> bool:
    """An access control list lets others in by name; how far, the bits for the group then say."""
    try:
        return bool(os.getxattr(descriptor, "system.posix_acl_access"))
    except OSError:
        return False
