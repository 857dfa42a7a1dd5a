"""Downloads packages of PyPI with pip into the user's cache, one set-up at a time: for .ci/libtorch, .ci/dali and .ci/from-pypi.

Libraries are downloaded and unpacked wheel by wheel, and each wheel is kept once it is unpacked: an interrupted set-up goes on with
the wheel at which it stopped, and leaves nothing that a later one would take for complete. pip shows its progress, and compares each
file with the checksum of the index.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NAME = Path(sys.argv[0]).name
# The wheels that `multicard setup` downloads, with their checksums.
LIST = Path(__file__).resolve().parent.parent / "src/setup/wheels.txt"
# Free disk space while a wheel and what it unpacks to lie side by side, in GB; the toolkit is several wheels.
FREE_GB = {"torch": 2.5, "cuda-toolkit": 3.5}
FREE_OTHERS_GB = 1.5


def say(text):
    print(f"{NAME}: {text}", file=sys.stderr, flush=True)


def fail(text):
    say(text)
    sys.exit(1)


def run(main):
    """Calls the script's `main`; says what went wrong outside it."""
    try:
        main()
    except KeyboardInterrupt:
        fail("interrupted; what is complete is kept: repeat, and it goes on")
    except OSError as error:
        fail(f"{error.strerror or error}: {error.filename or 'the cache'}; what is complete is kept: mend that and repeat, or set "
             "XDG_CACHE_HOME to a folder that can be written")


def cache():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "multicard"


@contextlib.contextmanager
def locked(name):
    """Makes other set-ups that lock the file `name` of the cache wait."""
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / name, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another set-up that holds {lock.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


@contextlib.contextmanager
def staging(lock):
    """A folder of the cache for what is not complete yet."""
    prefix = f"{Path(lock.name).name}-staging-"
    # The lock is held, so whatever was being staged has been interrupted.
    for stale in cache().glob(f"{prefix}*"):
        shutil.rmtree(stale)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=cache()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pip(words, folder, lock):
    """Runs pip, which uses `folder` for its own files. Returns whether it succeeded."""
    # pip unpacks to TMPDIR, which may be a small memory disk; its own cache would keep everything a second time.
    temporary = folder / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", *words]
    # pip keeps the lock open: should this script be killed, the next one waits until pip has ended too.
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(temporary)}, stdout=sys.stderr, pass_fds=[lock.fileno()],
                          check=False)
    return done.returncode == 0


def check_sum(wheel):
    """Refuses a wheel that is another file than the one that `multicard setup` downloads under this name."""
    lines = [line.split() for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    expected = next((sha256 for _, _, _, sha256, url in lines if url.rsplit("/", 1)[1] == wheel.name), None)
    if expected is None:
        return
    found = hashlib.sha256()
    with open(wheel, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    if found.hexdigest() != expected:
        fail(f"the package index has another file under the name {wheel.name}: SHA-256 {found.hexdigest()}, expected {expected}; "
             "use an index that has the files of PyPI")


def merge(source, target):
    """Moves `source` to `target`, whole where nothing is in the way: each step is one rename."""
    if source.is_dir() and not source.is_symlink() and target.is_dir():
        for entry in source.iterdir():
            merge(entry, target / entry.name)
    else:
        os.replace(source, target)


class Libraries:
    """A folder of the cache with parts of wheels. Its file `complete`, which `multicard setup` writes too, lists the wheels."""

    def __init__(self, name, lock, parts, instead):
        """`parts` matches the files that are unpacked; `instead` says what helps where no package index can be reached."""
        self.folder, self.lock, self.parts, self.instead = cache() / name, lock, parts, instead
        self.complete = self.folder / "complete"

    def held(self):
        return self.complete.read_text().split() if self.complete.exists() else []

    def note(self, requirement):
        part = self.complete.with_name("complete.part")
        part.write_text("\n".join([*self.held(), requirement]) + "\n")
        os.replace(part, self.complete)

    def fetch(self, wanted, verify=None):
        """Adds the wheels of `wanted` that the folder does not hold yet. `verify` may refuse what a wheel was unpacked to."""
        for requirement in wanted:
            if requirement in self.held():
                continue
            self.check_free_space(requirement)
            say(f"downloading {requirement} into {self.folder} (once)")
            with staging(self.lock) as folder:
                self.download(requirement, folder)
                self.unpack(folder)
                if verify:
                    verify(folder / "tree")
                merge(folder / "tree", self.folder)
            self.note(requirement)

    def check_free_space(self, requirement):
        needed_gb = FREE_GB.get(re.split(r"[=\[]", requirement)[0], FREE_OTHERS_GB)
        free_gb = shutil.disk_usage(cache()).free / 1e9
        if free_gb < needed_gb:
            fail(f"needs {needed_gb} GB of free disk space in {cache()} while unpacking {requirement}, {free_gb:.1f} GB are free; "
                 f"make room, set XDG_CACHE_HOME to another disk, or {self.instead}")

    def download(self, requirement, folder):
        # The wheels' C++ side is the same for every Python: naming one makes the Python that runs this irrelevant.
        words = ["download", "--only-binary=:all:", "--python-version=3.12", f"--dest={folder / 'wheels'}", requirement]
        # The libraries of the toolkit are its dependencies; those of the others are named beside them.
        if not requirement.startswith("cuda-toolkit"):
            words.append("--no-deps")
        if not pip(words, folder, self.lock):
            fail(f"pip could not download {requirement} (its message is above); repeat when the package index can be reached "
                 f"(what was downloaded before it is kept), or {self.instead}")

    def unpack(self, folder):
        for wheel in sorted((folder / "wheels").glob("*.whl")):
            check_sum(wheel)
            say(f"unpacking {wheel.name}")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder / "tree", [name for name in archive.namelist() if self.parts.match(name)])
            wheel.unlink()
