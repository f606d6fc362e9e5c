#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A rank of two that run all_reduce by NCCL on one GPU. Results are checked bit for bit.

--probe only says whether there are NCCL, the CUDA runtime and a GPU: 0, or 77 and what is missing.
"""
import ctypes
import glob
import os
import sys
import time

from rounds import Rounds, check, die_with_parent, digest, parser

SKIPPED = 77
SIZES = (1, 1000, 100_000, 4_000_000)   # of 4 bytes
FLOAT32, INT32, SUM = 7, 2, 0           # nccl.h
TO_GPU, FROM_GPU = 1, 2                 # enum cudaMemcpyKind
NOT_READY = 600                         # cudaErrorNotReady
IN_PROGRESS = 7                         # ncclInProgress
ID_S = 60                               # for rank 0 to tell the identifier


class Absent(Exception):
    """Something is missing on this machine."""


class UniqueId(ctypes.Structure):
    """ncclUniqueId, which is passed by value."""
    _fields_ = [("bytes", ctypes.c_char * 128)]


def load(what, folder, names):
    """From a package of PyPI if it is there, else as the loader finds it."""
    paths = [p for site in sys.path for p in sorted(glob.glob(os.path.join(site, folder)))]
    for path in paths + names:
        try:
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    raise Absent(f"no {what}: neither {folder} beside this Python nor {' nor '.join(names)}")


class Cuda:
    """The few calls of the runtime that are needed; they raise what they return."""

    def __init__(self):
        self.lib = load("CUDA runtime", "nvidia/*/lib/libcudart.so.*",
                        ["libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"])
        self.lib.cudaGetErrorString.restype = ctypes.c_char_p

    def text(self, error):
        return self.lib.cudaGetErrorString(error).decode()

    def __getattr__(self, name):
        function = getattr(self.lib, name)

        def call(*args):
            error = function(*args)
            if error:
                raise RuntimeError(f"{name}: {self.text(error)}")

        return call

    def devices(self):
        n = ctypes.c_int()
        error = self.lib.cudaGetDeviceCount(ctypes.byref(n))
        if error or not n.value:
            raise Absent(f"no GPU: CUDA says '{self.text(error)}'" if error else "no GPU")
        return n.value

    def alloc(self, size):
        at = ctypes.c_void_p()
        self.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(size))
        return at

    def done(self, stream):
        error = self.lib.cudaStreamQuery(stream)
        if error not in (0, NOT_READY):
            raise RuntimeError(f"the stream: {self.text(error)}")
        return not error


class Nccl:
    """Likewise."""

    def __init__(self):
        self.lib = load("NCCL", "nvidia/nccl/lib/libnccl.so.2", ["libnccl.so.2"])
        self.lib.ncclGetErrorString.restype = ctypes.c_char_p
        self.lib.ncclGetLastError.restype = ctypes.c_char_p
        self.comm = ctypes.c_void_p()

    def text(self, result):
        return f"{self.lib.ncclGetErrorString(result).decode()} " + \
            self.lib.ncclGetLastError(None).decode()

    def __getattr__(self, name):
        function = getattr(self.lib, name)

        def call(*args):
            result = function(*args)
            if result:
                raise RuntimeError(f"{name}: {self.text(result)}")

        return call

    def version(self):
        n = ctypes.c_int()
        self.ncclGetVersion(ctypes.byref(n))
        return n.value

    def needs_sharing(self):
        """Raises if this NCCL does not know of several ranks on one GPU."""
        with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
            paths = {row.split()[-1] for row in maps if "libnccl" in row}
        for path in paths:
            with open(path, "rb") as f:
                if b"NCCL_MULTI_RANK_GPU_ENABLE" in f.read():
                    return
        raise Absent(f"NCCL {self.version()} does not let ranks share a GPU")

    def init(self, rank, id_path):
        """The identifier goes from rank 0 to rank 1 in a file, which appears whole."""
        unique = UniqueId()
        if rank == 0:
            self.ncclGetUniqueId(ctypes.byref(unique))
            with open(id_path + ".new", "wb") as f:
                f.write(bytes(unique))
            os.rename(id_path + ".new", id_path)
        else:
            end = time.monotonic() + ID_S
            while not os.path.exists(id_path):
                check(time.monotonic() < end, "rank 0 gives no identifier")
                time.sleep(0.01)
            with open(id_path, "rb") as f:
                unique = UniqueId.from_buffer_copy(f.read())
        self.ncclCommInitRank(ctypes.byref(self.comm), 2, unique, rank)

    def failed(self):
        """None, or what went wrong in the background."""
        result = ctypes.c_int()
        self.ncclCommGetAsyncError(self.comm, ctypes.byref(result))
        return self.text(result.value) if result.value not in (0, IN_PROGRESS) else None


class Rank:
    """A communicator of two ranks, and room on the GPU."""

    def __init__(self, number, gpu, id_path):
        self.cuda, self.nccl, self.number = Cuda(), Nccl(), number
        count = self.cuda.devices()
        if gpu >= count:
            raise Absent(f"no GPU {gpu}: there are {count}")
        self.cuda.cudaSetDevice(gpu)
        self.nccl.init(number, id_path)
        self.source = self.cuda.alloc(4 * max(SIZES))
        self.target = self.cuda.alloc(4 * max(SIZES))
        self.stream = ctypes.c_void_p()
        self.cuda.cudaStreamCreate(ctypes.byref(self.stream))

    def all_reduce(self, mine, kind):
        """The sum over both ranks; an error of the network ends the wait."""
        total, size = mine.copy(), ctypes.c_size_t(mine.nbytes)
        self.cuda.cudaMemcpy(self.source, mine.ctypes.data_as(ctypes.c_void_p), size, TO_GPU)
        self.nccl.ncclAllReduce(self.source, self.target, ctypes.c_size_t(mine.size), kind, SUM,
                                self.nccl.comm, self.stream)
        while not self.cuda.done(self.stream):
            error = self.nccl.failed()
            check(not error, f"NCCL: {error}")
        self.cuda.cudaMemcpy(total.ctypes.data_as(ctypes.c_void_p), self.target, size, FROM_GPU)
        return total


def probe():
    try:
        import numpy  # pylint: disable=import-outside-toplevel,unused-import # noqa: F401
        nccl = Nccl()
        nccl.needs_sharing()
        print(f"NCCL {nccl.version()}, {Cuda().devices()} GPUs")
    except (Absent, ImportError, RuntimeError) as e:
        print(e)
        return SKIPPED
    return 0


def work(args):
    import numpy as np  # pylint: disable=import-outside-toplevel

    def pattern(rank, n, size):
        return np.random.default_rng((rank, n, size)).random(size, dtype=np.float32)

    rank = Rank(args.rank, args.gpu, args.id)
    rounds, last = Rounds(args), False
    while not last:
        say = args.rank == 0 and rounds.last()
        last = bool(rank.all_reduce(np.array([say], dtype=np.int32), INT32)[0])
        got = []
        for size in SIZES:
            got.append(rank.all_reduce(pattern(args.rank, rounds.n, size), FLOAT32))
            want = pattern(0, rounds.n, size) + pattern(1, rounds.n, size)
            check(got[-1].tobytes() == want.tobytes(), f"all_reduce of {size} elements")
        rounds.note(digest(*got))
    rank.nccl.ncclCommDestroy(rank.nccl.comm)


def main():
    if sys.argv[1:] == ["--probe"]:
        return probe()
    p = parser()
    p.add_argument("--rank", type=int, required=True)
    p.add_argument("--gpu", type=int, default=0)
    p.add_argument("--id", required=True, help="file for the communicator's identifier")
    args = p.parse_args()
    die_with_parent()
    try:
        work(args)
    except (AssertionError, RuntimeError, Absent) as e:
        # A kernel that waits for its peer would keep an orderly exit waiting for ever.
        print(e, file=sys.stderr, flush=True)
        os._exit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
