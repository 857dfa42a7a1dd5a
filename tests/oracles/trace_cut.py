"""Cuts small fixtures out of real Nsight Systems exports, and computes what they must give, without our code.

    python tests/oracles/trace_cut.py NAME=REPORT.sqlite ... [--stats FOLDER]

writes for each report tests/golden/trace/NAME.sqlite.gz (a few thousand consecutive events of every kind) and
tests/golden/trace/NAME.json (their totals, by plain Python). With --stats it also keeps, as NAME.stats.json, what
`nsys stats` printed for the whole report (stats_NAME_<report>.csv in that folder), and computes the same from the
whole report to make sure that both agree.

Only tables and columns that the import reads are copied, names only where an event uses them, so that nothing of the
machine the report was recorded on is left.
"""
import csv
import gzip
import json
import sqlite3
import statistics
import sys
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "trace"
EVENTS = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": 6000,
    "CUPTI_ACTIVITY_KIND_KERNEL": 2500,
    "CUPTI_ACTIVITY_KIND_MEMCPY": 1500,
    "CUPTI_ACTIVITY_KIND_MEMSET": 300,
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": 400,
    "NVTX_EVENTS": 300,
}
WHOLE = ["TARGET_INFO_CUDA_DEVICE", "ANALYSIS_DETAILS", "ENUM_CUDA_MEMCPY_OPER"]
NAMES = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": ["nameId"],
    "CUPTI_ACTIVITY_KIND_KERNEL": ["demangledName", "shortName"],
    "NVTX_EVENTS": ["textId"],
}
SYNC = ["unknown", "event", "stream_wait_event", "stream", "context"]
MEMORY = ["pageable", "pinned", "device", "array", "managed", "device_static", "managed_static", "unknown"]
COPY = {1: "host_to_device", 2: "device_to_host", 8: "device_to_device", 9: "host_to_host", 10: "peer_to_peer"}


def columns(source, table):
    return [row[1] for row in source.execute(f"PRAGMA table_info({table})")]


def cut(report, target):
    """Copies consecutive events from the middle of a report, where steps are steady."""
    source = sqlite3.connect(f"file:{report}?mode=ro", uri=True)
    if target.exists():
        target.unlink()
    small = sqlite3.connect(target)
    tables = {row[0] for row in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    wanted = set()
    lo, hi = source.execute("SELECT min(start), max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    middle = lo + (hi - lo) * 6 // 10
    for table, most in EVENTS.items():
        if table not in tables:
            continue
        names = columns(source, table)
        # Declared types, and the order of columns, are as nsys wrote them.
        small.execute(source.execute("SELECT sql FROM sqlite_master WHERE name = ?", [table]).fetchone()[0])
        start = 0 if table == "NVTX_EVENTS" else middle
        rows = source.execute(f"SELECT * FROM {table} WHERE start >= ? ORDER BY start LIMIT ?", [start, most]).fetchall()
        small.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", rows)
        for name in NAMES.get(table, []):
            at = names.index(name)
            wanted.update(row[at] for row in rows if row[at] is not None)
    for table in WHOLE:
        if table in tables:
            small.execute(source.execute("SELECT sql FROM sqlite_master WHERE name = ?", [table]).fetchone()[0])
            rows = source.execute(f"SELECT * FROM {table}").fetchall()
            small.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns(source, table)))})", rows)
    small.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER)")
    gpus = source.execute("SELECT id, name, totalMemory, smCount FROM TARGET_INFO_GPU").fetchall()
    small.executemany("INSERT INTO TARGET_INFO_GPU VALUES (?, ?, ?, ?)", gpus)
    small.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    for name in sorted(wanted):
        row = source.execute("SELECT id, value FROM StringIds WHERE id = ?", [name]).fetchone()
        small.execute("INSERT INTO StringIds VALUES (?, ?)", row)
    small.execute("CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT)")
    meta = source.execute(
        "SELECT name, value FROM META_DATA_EXPORT WHERE name LIKE 'EXPORT_SCHEMA_VERSION%' OR name = 'EXPORT_PRODUCT_VERSION'"
    ).fetchall()
    small.executemany("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", meta)
    small.commit()
    small.execute("VACUUM")
    small.close()
    source.close()


def summary(values):
    return {
        "calls": len(values),
        "total_ns": sum(values),
        "avg_ns": sum(values) / len(values),
        "med_ns": statistics.median(values),
        "min_ns": min(values),
        "max_ns": max(values),
        "std_ns": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


def grouped(rows):
    groups = {}
    for key, value in rows:
        groups.setdefault(key, []).append(value)
    return {key: summary(values) for key, values in groups.items()}


def union(intervals):
    total, reach = 0, None
    for start, end in sorted(intervals):
        if reach is None or start > reach:
            total, reach = total + end - start, end
        elif end > reach:
            total, reach = total + end - reach, end
    return total


def printed(name):
    return name[:-6] if name[-6:-4] == "_v" else name


def oracle(path):
    """The same sums as the import's, by the plainest means."""
    db = sqlite3.connect(path)
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    names = dict(db.execute("SELECT id, value FROM StringIds"))
    runtime = db.execute("SELECT nameId, end - start FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchall()
    kernels = db.execute("SELECT start, end, deviceId, globalPid, demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
    copies = db.execute(
        "SELECT start, end, deviceId, globalPid, copyKind, srcKind, dstKind, bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY"
    ).fetchall()
    sets = db.execute("SELECT start, end, deviceId, globalPid, bytes FROM CUPTI_ACTIVITY_KIND_MEMSET").fetchall()
    syncs = db.execute("SELECT syncType, end - start FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION").fetchall()
    ranges = []
    if "NVTX_EVENTS" in tables:
        ranges = db.execute(
            "SELECT text, textId, end - start FROM NVTX_EVENTS WHERE eventType IN (59, 60, 70, 71) AND end IS NOT NULL"
        ).fetchall()
    devices = {(pid, cuda): gpu for gpu, cuda, pid in db.execute("SELECT gpuId, cudaId, pid FROM TARGET_INFO_CUDA_DEVICE")}

    def gpu(device, process):
        return devices.get(((process >> 24) & 0xFFFFFF, device), device)

    memcpy = {}
    for start, end, _, _, kind, src, dst, size in copies:
        row = memcpy.setdefault(f"{COPY[kind]} {MEMORY[src]} {MEMORY[dst]}", [0, 0, 0])
        row[0], row[1], row[2] = row[0] + 1, row[1] + size, row[2] + end - start
    busy, comm, rest = {}, {}, {}
    for start, end, device, process, name in kernels:
        on = gpu(device, process)
        busy.setdefault(on, []).append((start, end))
        (comm if names[name].startswith("nccl") else rest).setdefault(on, []).append((start, end))
    for start, end, device, process, *_ in copies + sets:
        on = gpu(device, process)
        busy.setdefault(on, []).append((start, end))
        (comm if len(_) == 4 and _[0] == 10 else rest).setdefault(on, []).append((start, end))
    first = min(start for all in busy.values() for start, _ in all)
    last = max(end for all in busy.values() for _, end in all)
    per_gpu = {}
    for on, all in busy.items():
        both = union(comm.get(on, [])) + union(rest.get(on, [])) - union(all)
        per_gpu[str(on)] = {
            "busy_ns": union(all),
            "idle_ns": last - first - union(all),
            "comm_ns": union(comm.get(on, [])),
            "overlap_ns": both,
        }
    operations = [(f"copy {row[4]}", row[1] - row[0]) for row in copies] + [("memset", row[1] - row[0]) for row in sets]
    sizes = [(f"copy {row[4]}", row[7]) for row in copies] + [("memset", row[4]) for row in sets]
    return {
        "api": [dict(name=printed(names[key]), **value) for key, value in grouped(runtime).items()],
        "kernels": [
            dict(name=key, **value)
            for key, value in grouped((names[row[4]], row[1] - row[0]) for row in kernels).items()
        ],
        "memory_times": grouped(operations),
        "memory_sizes": grouped(sizes),
        "memcpy": memcpy,
        "sync": {SYNC[kind]: value for kind, value in grouped(syncs).items()},
        "nvtx": grouped((text if text is not None else names[name], length) for text, name, length in ranges),
        "per_gpu": per_gpu,
    }


def stats(folder, name, whole):
    """What nsys printed for the whole report, after a check that plain Python finds the same."""
    kept = {}
    for report in ["cuda_api_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"]:
        with open(Path(folder) / f"stats_{name}_{report}.csv", newline="") as file:
            kept[report] = list(csv.reader(file))[1:]
    for report, mine in [("cuda_api_sum", whole["api"]), ("cuda_gpu_kern_sum", whole["kernels"])]:
        found = sorted((row["name"], row["calls"], row["total_ns"], f"{row['std_ns']:.1f}", f"{row['med_ns']:.1f}") for row in mine)
        said = sorted((row[8], int(row[2]), int(row[1]), row[7], row[4]) for row in kept[report])
        assert found == said, f"{name} {report}: nsys and Python differ"
    return kept


def main():
    folder = None
    reports = []
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument == "--stats":
            folder = next(arguments)
        else:
            reports.append(argument.split("=", 1))
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, report in reports:
        small = GOLDEN / f"{name}.sqlite"
        cut(report, small)
        (GOLDEN / f"{name}.json").write_text(json.dumps(oracle(small), indent=1, sort_keys=True) + "\n")
        with open(GOLDEN / f"{name}.sqlite.gz", "wb") as out:
            # No name and no time in the archive: the same report gives the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as packed:
                packed.write(small.read_bytes())
        small.unlink()
        if folder and (Path(folder) / f"stats_{name}_cuda_api_sum.csv").exists():
            said = stats(folder, name, oracle(report))
            (GOLDEN / f"{name}.stats.json").write_text(json.dumps(said, indent=1) + "\n")


main()
