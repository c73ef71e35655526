"""What hostile jobs do to outlive their attempt, one function an attack.

    python -S escapee.py ATTACK FOLDER

All processes of an attack share a lock on FOLDER/ATTACK.lock: while one of them lives, it cannot be taken. A later
attempt that cannot take it leaves FOLDER/ATTACK.overlap. FOLDER/ATTACK.ready says that the attack has been carried out.
Every loop is bounded, and everything ends by itself after LIMIT_S.
"""
# ruff: noqa: PTH103, PTH105, PTH110, PTH120, PTH123, S606, SIM105 - what it loads delays what it does

import ctypes
import fcntl
import os
import signal
import sys
import threading
import time

LIMIT_S = 180.0
CHAIN, STORM = 30_000, 120
PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 4, 15, 36
CLONE3, CLONE_VFORK, SIGCHLD = 435, 0x4000, 17

name, folder = sys.argv[1:3]
libc = ctypes.CDLL(None)
begun_s = time.monotonic()


def path(kind):
    return f"{folder}/{name}.{kind}"


def locked():
    """The lock, which every fork and every command we become inherits."""
    fd = os.open(path("lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        touch("overlap")
    os.set_inheritable(fd, True)
    return fd


def touch(kind):
    os.close(os.open(path(kind), os.O_CREAT | os.O_WRONLY, 0o600))


def stay(*_):
    touch("ready")
    while time.monotonic() - begun_s < LIMIT_S:
        time.sleep(1.0)
    os._exit(0)


def become(*prefix, env=None):
    """Run the waiting anew, as another command and by default with nothing in the environment."""
    words = [*prefix, sys.executable, "-S", __file__, "stay", folder, name]
    env = env or ({"PATH": os.environ["PATH"]} if prefix else {})
    os.execvpe(words[0], words, env)


def detached():
    """A double fork with a session in between; True in the process that is nobody's child."""
    if os.fork():
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    return True


def close_all(but):
    for fd in range(256):
        if fd != but:
            try:
                os.close(fd)
            except OSError:
                pass


def double_fork():
    if detached():
        stay()


def cleared():
    if detached():
        become()


def leader_cleared():
    become()


def daemonised():
    if detached():
        os.chdir("/")
        os.umask(0)
        touch("ready")
        close_all(but=lock)
        stay()


def group_left():
    if os.fork() == 0:
        os.setpgid(0, 0)
        stay()


def deaf():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if detached():
        become()
    stay()


def blocked():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    if detached():
        become()
    stay()


def stopped_member():
    if detached():
        touch("ready")
        os.kill(os.getpid(), signal.SIGSTOP)
        stay()


def traced_member():
    if os.fork() == 0:
        libc.ptrace(0, 0, 0, 0)  # PTRACE_TRACEME
        touch("ready")
        os.kill(os.getpid(), signal.SIGSTOP)
        stay()


def renamed():
    if detached():
        libc.prctl(PR_SET_NAME, b"weft.node.coord", 0, 0, 0)
        os.execve(sys.executable, ["weft.node.coordinator", "-S", __file__, "stay", folder, name], {})


def thread_storm():
    for _ in range(64):
        threading.Thread(target=stay, daemon=True).start()
    if detached():
        stay()


def in_vfork():
    """The parent waits in the kernel until the child becomes another command, which it never does."""
    words = (ctypes.c_uint64 * 11)(CLONE_VFORK)
    words[4] = SIGCHLD
    call = ctypes.PyDLL(None).syscall
    if call(ctypes.c_long(CLONE3), words, ctypes.c_size_t(ctypes.sizeof(words))) == 0:
        stay()


def spawned():
    words = [sys.executable, "-S", __file__, "stay", folder, name]
    os.posix_spawn(sys.executable, words, {}, setsid=True)


def nested_subreaper():
    if os.fork() == 0:
        os.setsid()
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if detached():
            become()
        stay()


def unreadable():
    if detached():
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        stay()


def user_namespace():
    if detached():
        become("unshare", "--user", "--map-root-user")


def pid_namespace():
    if detached():
        become("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child=SIGCONT")


def mount_namespace():
    if detached():
        become("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc")


def chain(between=lambda: None):
    """Each process forks and exits at once; none lives as long as a look at all processes takes."""
    touch("ready")
    if os.fork():
        return
    for _ in range(CHAIN):
        if os.fork():
            os._exit(0)
        between()
        if time.monotonic() - begun_s > LIMIT_S:
            break
    os._exit(0)


def chain_of_sessions():
    chain(os.setsid)


def chain_alone():
    """The command itself is the first of the chain, so it seems to have ended."""
    chain_of_sessions()
    os._exit(0)


def storm():
    for _ in range(STORM):
        if os.fork() == 0:
            os.setsid()
            for _ in range(20):
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                os.waitpid(pid, 0)
            stay()


def restarting():
    """Two processes, each of which starts the other again."""
    if detached():
        touch("ready")
        for _ in range(40):
            pid = os.fork()
            if pid == 0:
                os.setsid()
                continue
            os.waitpid(pid, 0)
            if time.monotonic() - begun_s > LIMIT_S:
                break
        stay()


def strange_mark():
    if detached():
        become(env={"WEFT_TASK": os.environ["WEFT_TASK"].rpartition("/")[0] + "/1.1.0"})


def forged_status():
    path_ = f"{os.environ['WEFT_HOME']}/jobs/{os.environ['WEFT_JOB_ID']}/attempts/1/0/status.json"
    with open(path_ + ".x", "w") as file:
        file.write('{"exit_code": 0, "at_s": 1.0, "by": "shepherd", "message": ""}')
    os.replace(path_ + ".x", path_)
    if detached():
        become()


# ---- in a cgroup


def own_cgroup():
    with open("/proc/self/cgroup") as file:
        own = next(line[3:].strip() for line in file if line.startswith("0::"))
    with open("/proc/self/mountinfo") as file:
        point = next(line.split()[4] for line in file if " - cgroup2 " in line)
    return point + own


def put(path_, text):
    with open(path_, "w") as file:
        file.write(text)


def left_cgroup():
    put(os.path.dirname(own_cgroup()) + "/cgroup.procs", "0")
    cleared()


def left_all_cgroups():
    put(os.path.dirname(os.path.dirname(own_cgroup())) + "/cgroup.procs", "0")
    cleared()


def nested_cgroup():
    own = own_cgroup()
    os.makedirs(own + "/a/b/c")
    put(own + "/a/b/c/cgroup.procs", "0")
    cleared()


def frozen_cgroup():
    cleared()
    while not os.path.exists(path("ready")):
        time.sleep(0.01)
    put(own_cgroup() + "/cgroup.freeze", "1")


def shepherd_in_cgroup():
    put(own_cgroup() + "/cgroup.procs", str(os.getppid()))
    cleared()


def coordinator_in_cgroup():
    put(own_cgroup() + "/cgroup.procs", str(pid_of("coordinator")))
    cleared()


# ---- on weft's own processes


def pid_of(which):
    if which == "shepherd":
        return os.getppid()
    lock_name = "daemon.lock" if which == "daemon" else "node.lock"
    with open(f"{os.environ['WEFT_HOME']}/{lock_name}") as file:
        return int(file.read())


def struck(number, *which):
    """Escape first, then send a signal to all of these at once."""
    pids = [pid_of(each) for each in which]
    cleared()
    while not os.path.exists(path("ready")):
        time.sleep(0.01)
    for each in pids if number == signal.SIGKILL else ():
        os.kill(each, signal.SIGSTOP)
    for each in pids:
        os.kill(each, number)
    become()


def strike():
    """The attack's own name says what is done: kill-shepherd-coordinator, or stop-daemon."""
    how, *which = name.split("-")
    struck(signal.SIGKILL if how == "kill" else signal.SIGSTOP, *which)


if __name__ == "__main__":
    if name == "stay":
        name = sys.argv[3]
        stay()
    lock = locked()
    if int(os.environ.get("WEFT_ATTEMPT", "1")) > 1:
        sys.exit(0)
    globals().get(name, strike)()
    while time.monotonic() - begun_s < LIMIT_S:
        time.sleep(1.0)
