"""How fast LMCache's own aesgcm serde opens blocks, by number of threads.

Runs in the engine environment (`make engine-env`), on the kind of machine that is to be known:

    .venv-engine/bin/python -m tools.serde_rate [--threads 1,2,4,8,16] [--mib 14] [--seconds 3]

Blocks lie in memory, so neither disk nor network counts. Three rates are printed for each number of
threads: the serde as it is; the cipher alone, which leaves the interpreter's lock since August 2026
(pyca/cryptography#15359); and the serde's three copies alone, which hold it, so that their rate is
the most that all threads together reach. In brackets: the same by seconds of CPU, which other
programs on the machine spoil less. `kascade.sizing.transfer` models the first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_MIB = 1024**2
_HEADER = 13
_TAG = 16


def rate(
    work: Callable[[int], None], *, threads: int, size: int, seconds: float
) -> tuple[float, float]:
    """Return bytes a second, and a CPU second, of a call that treats one block, asked at once.

    Args:
        work: Takes the thread's number.
        threads: How many ask.
        size: Bytes of a block.
        seconds: How long they ask.
    """
    counts = [0] * threads
    begin = threading.Barrier(threads + 1)
    end = threading.Event()

    def ask(number: int) -> None:
        begin.wait()
        while not end.is_set():
            work(number)
            counts[number] += 1

    started = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(threads)]
    for thread in started:
        thread.start()
    begin.wait()
    since, used = time.perf_counter(), time.process_time()
    time.sleep(seconds)
    end.set()
    for thread in started:
        thread.join()
    done = sum(counts) * size
    return done / (time.perf_counter() - since), done / (time.process_time() - used)


def block(size: int) -> Any:
    """Return one of LMCache's own memory objects."""
    import torch  # noqa: PLC0415
    from lmcache.v1.memory_management import (  # noqa: PLC0415
        MemoryFormat,
        MemoryObjMetadata,
        TensorMemoryObj,
    )

    raw = torch.zeros(size, dtype=torch.uint8)
    meta = MemoryObjMetadata(
        shape=torch.Size([size]),
        dtype=torch.uint8,
        address=0,
        phy_size=size,
        ref_count=1,
        fmt=MemoryFormat.BINARY,
        shapes=[torch.Size([size])],
        dtypes=[torch.uint8],
    )
    return TensorMemoryObj(raw, meta, None)


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--threads", default="1,2,4,8,16", help="numbers of threads")
    parser.add_argument("--mib", type=int, default=14, help="size of a block")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each is measured")
    options = parser.parse_args(words)

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
    from lmcache.v1.distributed.api import ObjectKey  # noqa: PLC0415
    from lmcache.v1.distributed.serde import aesgcm  # noqa: PLC0415

    size = options.mib * _MIB
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "key")
        path.write_bytes(os.urandom(32))
        serde = aesgcm._create_aesgcm_serde({"master_key_path": str(path), "aes_bits": 256})
    key = ObjectKey(chunk_hash=b"\0" * 32, model_name="m", kv_rank=0)
    plain, encrypted = block(size), block(size + _HEADER + _TAG)
    serde._serializer.serialize(plain, encrypted, key)
    cipher = AESGCM(os.urandom(32))
    text = cipher.encrypt(b"\0" * 12, bytes(size), None)

    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, blocks of {options.mib} MiB")
    print(f"{'threads':>7} {'serde':>18} {'cipher':>18} {'copies':>18}  MiB/s in all")
    for threads in map(int, options.threads.split(",")):
        targets = [block(size) for _ in range(threads)]

        def opened(number: int, targets: list[Any] = targets) -> None:
            serde._deserializer.deserialize(encrypted, targets[number], key)

        def decrypted(_: int) -> None:
            cipher.decrypt(b"\0" * 12, text, None)

        def copied(number: int, targets: list[Any] = targets) -> None:
            whole = bytes(encrypted.byte_array)
            part = whole[_HEADER : _HEADER + size]
            memoryview(targets[number].byte_array).cast("B")[:] = part

        found = [
            rate(work, threads=threads, size=size, seconds=options.seconds)
            for work in (opened, decrypted, copied)
        ]
        cells = (f"{wall / _MIB:>8,.0f} ({cpu / _MIB:,.0f})" for wall, cpu in found)
        print(f"{threads:>7} {' '.join(f'{cell:>18}' for cell in cells)}", flush=True)
    serde.close()


if __name__ == "__main__":
    main()
